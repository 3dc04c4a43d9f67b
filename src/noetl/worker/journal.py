"""Journal: what a worker has seen of one order and not yet reported.

Entries leave in the order they were written. What nobody waits for may stay a moment (design.md §3); what must be
durable before the next task starts is flushed and awaited, which is the post's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.base.clock import Clock
from noetl.events.orders import Entry, Order, Report, ReportResult, Timed


class LeaseLost(Exception):  # noqa: N818  it is not an error of anybody's: the order is another worker's now
    """The server did not accept a report: stop, and touch nothing more."""


class IterationStopped(Exception):  # noqa: N818  its end is recorded already
    """The server has ended this iteration: stop it, and go on with the others."""


class Journal:
    def __init__(self, order: Order, clock: Clock, worker_id: str) -> None:
        self._order, self._clock, self._worker_id = order, clock, worker_id
        self.order_id = order.order_id
        self._entries: list[Timed] = []
        # Set once and for all: after a refusal nothing of this order may begin any more.
        self._lost: ReportResult | None = None
        # Paths of iterations that the server has ended, or of the whole level.
        self.stopped: set[tuple[int, ...]] = set()
        self.paused = False  # as of the last report that was answered

    def add(self, entry: Entry) -> float:
        at = self._clock.now()
        self._entries.append(Timed(at, entry))
        return at

    @property
    def pending(self) -> int:
        """How many entries are not yet reported."""
        return len(self._entries)

    @property
    def entries(self) -> tuple[Timed, ...]:
        """Those not yet reported."""
        return tuple(self._entries)

    def report(self) -> Report:
        """Everything not yet reported; it counts as handed over."""
        # A turn that fails is sent again as it is, so they need not come back here.
        entries, self._entries = tuple(self._entries), []
        return Report(
            order_id=self._order.order_id,
            execution_id=self._order.execution_id,
            lease_epoch=self._order.lease_epoch,
            worker_id=self._worker_id,
            entries=entries,
        )

    def lose(self, verdict: ReportResult) -> None:
        """The server did not take a report of this order."""
        self._lost = verdict

    def note_paused(self, paused: bool) -> None:
        """Whether the execution was paused when the server answered last."""
        self.paused = paused

    def stop(self, paths: Iterable[tuple[int, ...]]) -> None:
        """The server has ended these iterations itself."""
        self.stopped.update(paths)

    def check(self) -> None:
        """LeaseLost if the order is no longer ours."""
        if self._lost is not None:
            raise LeaseLost(self._lost.value)
