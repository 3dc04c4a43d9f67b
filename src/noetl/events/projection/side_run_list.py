"""Every side run of an execution in the order they were asked for, as each was after any event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from noetl.events.outcomes import Error
from noetl.events.projection.number_history import NumberHistory
from noetl.events.projection.views import SideRunOrigin, StepRunView

_OVER = frozenset({"done", "failed", "unknown", "cancelled"})
_OWN_BYTES = 1_200


class SideRunMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A side run at a moment. `number` is its place in the list, `task` its first one."""

    number: int
    step: str
    origin: SideRunOrigin
    task: str | None
    status: str
    scheduled_at: float
    started_at: float | None
    finished_at: float | None
    error: Error | None


class _Record(msgspec.Struct):
    """A side run with the statuses it had, each from an event on."""

    number: int
    view: StepRunView
    task: str | None
    statuses: list[tuple[int, str]]

    def status_at(self, at: int) -> str:
        return next((status for seq, status in reversed(self.statuses) if seq <= at), self.statuses[0][1])

    def is_changed(self, since: int, at: int) -> bool:
        return any(since < seq <= at for seq, _ in self.statuses)

    def moment(self, at: int) -> SideRunMoment:
        view, status = self.view, self.status_at(at)
        assert view.origin is not None, "what has no origin is a step run"
        is_over = status in _OVER
        has_begun = is_over or status == "running"
        return SideRunMoment(
            number=self.number,
            step=view.step,
            origin=view.origin,
            task=self.task,
            status=status,
            scheduled_at=view.scheduled_at,
            started_at=view.started_at if has_begun else None,
            finished_at=view.finished_at if is_over else None,
            error=view.error if is_over else None,
        )


class SideRunList:
    """All side runs, and how many of each kind are in which status at which step."""

    def __init__(self) -> None:
        self._records: list[_Record] = []
        self._of_views: dict[int, _Record] = {}  # by the identity of their view, which the record keeps alive
        self._known = NumberHistory()  # how many there are
        self._counts: dict[tuple[str, str, str], NumberHistory] = {}  # by step, kind and status

    @property
    def size_bytes(self) -> int:
        return _OWN_BYTES * len(self._records) + sum(one.size_bytes for one in self._counts.values())

    def add(self, view: StepRunView, seq: int) -> None:
        record = _Record(len(self._records), view, view.pipeline.task, [(seq, view.status)])
        self._records.append(record)
        self._of_views[id(view)] = record
        self._known.put(seq, len(self._records))
        self._count(view, view.status, 1, seq)

    def note(self, views: Iterable[StepRunView], seq: int) -> None:
        """What became of some of them with event `seq`."""
        for view in views:
            record = self._of_views.get(id(view))
            if record is not None and (was := record.statuses[-1][1]) != view.status:
                record.statuses.append((seq, view.status))
                self._count(view, was, -1, seq)
                self._count(view, view.status, 1, seq)

    def _count(self, view: StepRunView, status: str, by: int, seq: int) -> None:
        assert view.origin is not None, "what has no origin is a step run"
        counts = self._counts.setdefault((view.step, view.origin.kind, status), NumberHistory())
        counts.put(seq, (counts.at(seq) or (0,))[0] + by)

    # what it was at any moment

    def known(self, at: int) -> int:
        """How many had been asked for."""
        return (self._known.at(at) or (0,))[0]

    def latest(self, at: int, *, most: int, since: int = 0) -> list[SideRunMoment]:
        """Those asked for last, the first of them first; only those that changed after event `since`."""
        until = self.known(at)
        return [one.moment(at) for one in self._records[max(0, until - most) : until] if one.is_changed(since, at)]

    def counts(self, at: int, since: int = 0) -> tuple[dict[str, dict[str, dict[str, int]]], set[str]]:
        """How many there are, by step, kind and status; and the steps where that changed after event `since`."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for (step, kind, status), number in self._counted(at):
            found.setdefault(step, {}).setdefault(kind, {})[status] = number
        return found, {step for (step, *_), one in self._counts.items() if one.is_changed(since, at)}

    def _counted(self, at: int) -> Iterator[tuple[tuple[str, str, str], int]]:
        for key, counts in self._counts.items():
            if number := (counts.at(at) or (0,))[0]:
                yield key, number
