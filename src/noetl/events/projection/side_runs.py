"""The part of the fold about side runs: compensations, handlers, asynchronous tasks, hooks that failed.
Also the list of them as it was after any event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.events import side_runs
from noetl.events.envelope import Event
from noetl.events.outcomes import Error
from noetl.events.payloads import Payload
from noetl.events.projection.loop_cells import NumberHistory
from noetl.events.projection.views import PipelineView, SideRunOrigin, StepRunView, Undoable
from noetl.events.side_runs import AsyncDone, AsyncStarted, HandlerDone, HandlerFailed, HandlerStarted
from noetl.events.tasks import HookFailed

_OVER = frozenset({"done", "failed", "unknown", "cancelled"})
# Bytes that one side run takes in memory with its view, roughly; histories are bounded by it.
_OWN_BYTES = 1_200


if TYPE_CHECKING:
    from noetl.events.projection.projection import Projection


Ending = (
    side_runs.CompensationDone
    | side_runs.CompensationFailed
    | side_runs.CompensationUnknown
    | HandlerDone
    | HandlerFailed
    | AsyncDone
)


def _registered(
    fold: Projection, event: Event, payload: side_runs.CompensationRegistered, _: StepRunView | None
) -> None:
    if event.execution_id == fold.execution_id:
        fold.undoable[payload.registration_id] = Undoable(payload.step, payload.task, payload.path)


def _requested(fold: Projection, event: Event, payload: side_runs.CompensationRequested, _: StepRunView | None) -> None:
    """Each is listed from here on, in the order in which they are undone."""
    if event.execution_id != fold.execution_id:
        return
    for registration_id in payload.registrations:
        undoable = fold.undoable.pop(registration_id, None) or Undoable("", "")
        origin, pipeline = SideRunOrigin(kind="compensation", path=undoable.path), PipelineView(undoable.task or None)
        view = StepRunView(
            step=undoable.step, scheduled_at=event.ts, status="pending", origin=origin, pipeline=pipeline
        )
        fold.pending[registration_id] = view
        fold.remember(view)


def _undone(fold: Projection, event: Event, payload: side_runs.CompensationStarted, _: StepRunView | None) -> None:
    # The view of the list is the one that runs from here on: it keeps its place in the order of requests.
    view = fold.pending.pop(payload.registration_id, None)
    if view is None:  # of a nested execution
        _begin(fold, event, SideRunOrigin(kind="compensation"), None)
        return
    view.status, view.step_run_id = "scheduled", event.step_run_id
    fold.side_runs[event.step_run_id or ""] = view


def _handled(fold: Projection, event: Event, payload: HandlerStarted, _: StepRunView | None) -> None:
    _begin(fold, event, SideRunOrigin(kind="handler", owner=payload.owner, event=payload.event.name), payload.task)
    if payload.interrupting:  # the body of its step is stopped
        fold.no_longer(payload.owner)


def _begin_async(fold: Projection, event: Event, payload: AsyncStarted, _: StepRunView | None) -> None:
    _begin(fold, event, SideRunOrigin(kind="async", owner=payload.owner), payload.task)


def _begin(fold: Projection, event: Event, origin: SideRunOrigin, task: str | None) -> None:
    assert event.step_run_id is not None, "a side run is a step run of its own"
    view = StepRunView(
        step=fold.name(event),
        scheduled_at=event.ts,
        step_run_id=event.step_run_id,
        origin=origin,
        pipeline=PipelineView(task),
    )
    fold.side_runs[event.step_run_id] = view
    fold.remember(view)


def _hook_failed(fold: Projection, event: Event, payload: HookFailed, _: StepRunView | None) -> None:
    """The hook has ended already, so only readers that keep finished runs see it."""
    origin = SideRunOrigin(kind="hook", owner=event.step_run_id, event=payload.phase)
    view = StepRunView(step=fold.name(event), scheduled_at=event.ts, origin=origin, pipeline=PipelineView(payload.hook))
    view.end("failed", event.ts, payload.error)
    fold.remember(view)


def _over(fold: Projection, event: Event, payload: Ending, view: StepRunView | None) -> None:
    fold.side_runs.pop(event.step_run_id or "", None)
    if view is None:
        return
    match payload:
        case side_runs.CompensationUnknown():
            view.end("unknown", event.ts, Error(kind=payload.event_type, message=payload.reason))
        case HandlerFailed(stopped=True) | AsyncDone(stopped=True):
            view.end("cancelled", event.ts, payload.error)
        case side_runs.CompensationFailed() | HandlerFailed():
            view.end("failed", event.ts, payload.error)
        case AsyncDone():
            view.end("done" if payload.error is None else "failed", event.ts, payload.error)
        case _:
            view.end("done", event.ts)


APPLY: dict[type[Payload], Callable[[Projection, Event, Any, StepRunView | None], None]] = {
    side_runs.CompensationRegistered: _registered,
    side_runs.CompensationRequested: _requested,
    side_runs.CompensationStarted: _undone,
    HandlerStarted: _handled,
    AsyncStarted: _begin_async,
    HookFailed: _hook_failed,
    side_runs.CompensationDone: _over,
    side_runs.CompensationFailed: _over,
    side_runs.CompensationUnknown: _over,
    HandlerDone: _over,
    HandlerFailed: _over,
    AsyncDone: _over,
}


# Every side run of an execution in the order of the requests, with its state after any event.


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
            # The view is that of the newest event. Runs that started after `at` are omitted.
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
        """Record the new state of side runs at event `seq`."""
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

    # the state after any event

    def known(self, at: int) -> int:
        """How many were requested."""
        return (self._known.at(at) or (0,))[0]

    def latest(self, at: int, *, most: int, since: int = 0) -> list[SideRunMoment]:
        """The side runs that were requested last, in the order of the requests; only those that changed after event
        `since`."""
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
