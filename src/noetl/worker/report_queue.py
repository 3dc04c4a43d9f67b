"""Report queue: collects everything a worker sends to its control plane. What has come together leaves in one turn
(performance.md §2). Also the journal of one order, whose entries it sends.

No timer delays anything. While one turn is under way the next one collects. When none is, the first entry leaves in
the next turn of the event loop, so iterations that end together share one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.events.orders import Entry, Order, Report, ReportResult, Timed, Turn, TurnAnswer
from noetl.worker.control_plane import ControlPlane
from noetl.worker.slots import WorkerHandle

Settle = Callable[[Any], Awaitable[None]]
# Bounds what a crash can lose of iterations that were done and not reported, and how much one turn carries.
MOST_PENDING = 400  # entries of an order that wait at most, where nothing makes them leave
SHARED_PENDING = 60  # the same at a server: while it takes what leaves together, all others wait
EVERY_POOL = "*"  # of a worker beside its control plane, which runs whatever there is


class _Load:
    """What leaves together, in the order it was said: journals to be reported and ends of orders; besides claims, and
    who waits for it."""

    def __init__(self) -> None:
        self.said: list[Journal | Report] = []
        self.journals: set[Journal] = set()  # those of them
        self.claims: list[asyncio.Future[Order | None]] = []
        self.waiting: list[asyncio.Future[None]] = []

    def note(self, journal: Journal) -> None:
        if journal not in self.journals:
            self.journals.add(journal)
            self.said.append(journal)


class ReportQueue:
    """`handle` is told of orders as they come. `settle` is awaited with what is about to leave, so that what others say
    need not wait for it."""

    def __init__(
        self,
        control_plane: ControlPlane,
        handle: WorkerHandle,
        pools: tuple[str, ...] = (EVERY_POOL,),
        settle: Settle | None = None,
        most_pending: int = MOST_PENDING,
    ) -> None:
        self._control_plane, self._handle, self._pools = control_plane, handle, pools
        self._settle, self.most_pending = settle, most_pending
        # What gathers for the next turn, and what is on its way. Two at most: turns follow each other, so that reports
        # of an order arrive in the order they were made.
        self._next: _Load | None = None
        self._away: _Load | None = None
        # One task delivers for as long as the worker lasts: a task for each turn would cost a chain a task a step.
        self._carrier: asyncio.Task[None] | None = None
        self._rest: asyncio.Future[None] | None = None  # what the carrier waits for when there is nothing to deliver
        self._is_ending = False

    async def flush(self, journal: Journal) -> None:
        """Return once all that the journal holds is durable. LeaseLost if its order is no longer ours."""
        if self._settle is not None and journal.pending:
            # Large values first: a report must never name a value that is not stored.
            await self._settle(journal.entries)
        if journal.pending:
            load = self._gathering()
            load.note(journal)
        elif self._away is not None and journal in self._away.journals:
            # Durable means answered, not sent.
            load = self._away  # it left already, and is not there yet
        else:
            return journal.check()
        arrived = asyncio.get_running_loop().create_future()
        load.waiting.append(arrived)
        await arrived
        return journal.check()

    async def claim(self, end: Report | None) -> Order | None:
        """Report the end of an order, if there is one, and take another, if there is one."""
        if end is None and self._handle.spare:
            # No turn at all: it was claimed for this worker while it waited.
            return self._handle.spare.pop(0)
        if self._settle is not None and end is not None:
            await self._settle(end)
        load = self._gathering()
        if end is not None:
            load.said.append(end)
        given: asyncio.Future[Order | None] = asyncio.get_running_loop().create_future()
        load.claims.append(given)
        return await given

    async def hand_in(self, end: Report) -> None:
        """Report the end of an order, and take no other."""
        if self._settle is not None:
            await self._settle(end)
        load = self._gathering()
        load.said.append(end)
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        load.waiting.append(arrived)
        await arrived

    async def settled(self) -> None:
        """Return once everything that was said has arrived, whoever still waits for it. No task is left behind."""
        while self._carrier is not None:
            self._is_ending = True
            self._rouse()
            await asyncio.wait({self._carrier})

    def _gathering(self) -> _Load:
        if self._next is None:
            self._next = _Load()
            if self._carrier is None:
                self._carrier = asyncio.ensure_future(self._deliver_reports())
            else:
                self._rouse()
        return self._next

    def _rouse(self) -> None:
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)

    async def _deliver_reports(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._next is not None:
                    # Swapped before the await: what is said during the turn belongs to the next one.
                    self._away, self._next = self._next, None
                    try:
                        await self._deliver(self._away)
                    # Broad: whatever broke the turn, those who wait must hear of it, or their slots hang for ever.
                    except Exception as problem:
                        _fail_waiters(self._away, problem)
                self._away = None
                if self._is_ending:
                    return
                self._rest = loop.create_future()
                await self._rest
        finally:
            self._carrier = self._away = self._rest = None
            self._is_ending = False

    async def _deliver(self, load: _Load) -> None:
        said = [one for one in load.said if isinstance(one, Report) or one.pending]
        reports = tuple([one if isinstance(one, Report) else one.report() for one in said])
        claims = [given for given in load.claims if not given.done()]  # a cancelled slot takes nothing more
        # Orders that are here already serve the first claims; asking for more would hold what no slot can run.
        spare = self._handle.spare
        capacity = max(0, len(claims) - len(spare))
        turn = Turn(worker_id=self._handle.worker_id, reports=reports, capacity=capacity, pools=self._pools)
        answer = await self._control_plane.turn(turn)
        if reports:
            crash_point("worker.reported")
        for one, verdict in zip(said, answer.verdicts, strict=True):
            if isinstance(one, Journal):
                _apply_answer(one, verdict, answer)
        # Orders of slots that were cancelled meanwhile stay in `spare`: they are leased to this worker and would
        # else wait for the lease to run out.
        self._handle.receive(answer.orders)
        for given in load.claims:
            if not given.done():
                given.set_result(spare.pop(0) if spare else None)
        for arrived in load.waiting:
            if not arrived.done():
                arrived.set_result(None)


def _apply_answer(journal: Journal, verdict: ReportResult, answer: TurnAnswer) -> None:
    if verdict not in (ReportResult.ACCEPTED, ReportResult.DUPLICATE):
        journal.lose(verdict)
    journal.note_paused(journal.order_id in answer.paused)
    journal.stop(answer.stopped.get(journal.order_id, ()))


def _fail_waiters(load: _Load, problem: Exception) -> None:
    """Whoever waits breaks with what broke the turn."""
    waiters: list[asyncio.Future[Any]] = [*load.claims, *load.waiting]
    for waiting in waiters:
        if not waiting.done():
            waiting.set_exception(problem)


# Journal: what a worker has seen of one order and not yet reported.
#
# Entries leave in the order they were written. What nobody waits for may stay a moment (design.md §3); what must be
# durable before the next task starts is flushed and awaited, which the queue does.


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
