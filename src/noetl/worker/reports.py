"""Reports: entries from a worker to its control plane, masked, with large values stored separately, and sent in
batches.

`ReportQueue` collects everything and sends it, one batch per turn (performance.md §2); a `Journal` has the entries of
one order. No timer delays anything. While one turn is in progress, the next batch collects. When none is, the first
entry is sent in the next pass of the event loop, so iterations that end together share one commit.

`ReportWriter` masks secrets in what is reported, then stores large values apart (KEY-06, RES-01). The pipeline itself
continues with the unmasked result: a task may use a secret that the task before it looked up (TOOL-09).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.errors import ToolError
from noetl.base.redaction import Mask
from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES, fits, fitted_entry, too_large
from noetl.events.orders import Entry, Order, Report, ReportResult, Timed, Turn, TurnAnswer
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Record, masked, with_changes
from noetl.events.steps import CaseWaiting, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.worker.control_plane import ControlPlane
from noetl.worker.slots import WorkerHandle

Settle = Callable[[Any], Awaitable[None]]
# Bounds how many finished iterations a crash can lose before they are reported, and the size of one turn.
MOST_PENDING = 400  # unsent entries of an order at most
SHARED_PENDING = 60  # the same for a worker in a server's process: while the server processes a batch, all others wait
EVERY_POOL = "*"  # the pools of a worker in the process of its control plane: it runs all orders


class _TurnBatch:
    """The content of one turn: journals to report and ends of orders, in their order; claims; and the futures of
    callers that wait for the answer."""

    def __init__(self) -> None:
        self.reported: list[Journal | Report] = []
        self.journals: set[Journal] = set()  # those of them
        self.claims: list[asyncio.Future[Order | None]] = []
        self.waiting: list[asyncio.Future[None]] = []

    def note(self, journal: Journal) -> None:
        if journal not in self.journals:
            self.journals.add(journal)
            self.reported.append(journal)


class ReportQueue:
    """`handle` receives the orders. `settle` is awaited with a report before it joins a batch, so that other reports do
    not wait for its large values."""

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
        # The batch of the next turn, and the batch in flight. Turns follow each other, so that reports of an order
        # arrive in the order they were made.
        self._next: _TurnBatch | None = None
        self._in_flight: _TurnBatch | None = None
        # One task delivers for as long as the worker runs: a task for each turn would cost one task per step.
        self._sender: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None  # the sender waits for it while there is nothing to send
        self._is_ending = False

    async def flush(self, journal: Journal) -> None:
        """Return once all entries of the journal are stored. Raises LeaseLost if this worker no longer holds the
        order."""
        if self._settle is not None and journal.pending:
            # Large values first: a report must never name a value that is not stored.
            await self._settle(journal.entries)
        if journal.pending:
            batch = self._next_batch()
            batch.note(journal)
        elif self._in_flight is not None and journal in self._in_flight.journals:
            # Stored means answered, not sent.
            batch = self._in_flight  # it is sent, and not yet answered
        else:
            return journal.check()
        arrived = asyncio.get_running_loop().create_future()
        batch.waiting.append(arrived)
        await arrived
        return journal.check()

    async def claim(self, end: Report | None) -> Order | None:
        """Report the end of an order, if `end` is given, and claim another; None if there is none."""
        if end is None and self._handle.spare:
            # No turn is needed: an order was claimed for this worker while it waited.
            return self._handle.spare.pop(0)
        if self._settle is not None and end is not None:
            await self._settle(end)
        batch = self._next_batch()
        if end is not None:
            batch.reported.append(end)
        given: asyncio.Future[Order | None] = asyncio.get_running_loop().create_future()
        batch.claims.append(given)
        return await given

    async def hand_in(self, end: Report) -> None:
        """Report the end of an order, and claim no other."""
        if self._settle is not None:
            await self._settle(end)
        batch = self._next_batch()
        batch.reported.append(end)
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch.waiting.append(arrived)
        await arrived

    async def settled(self) -> None:
        """Return once every report has been answered. No task is left running."""
        while self._sender is not None:
            self._is_ending = True
            self._wake()
            await asyncio.wait({self._sender})

    def _next_batch(self) -> _TurnBatch:
        if self._next is None:
            self._next = _TurnBatch()
            if self._sender is None:
                self._sender = asyncio.ensure_future(self._deliver_reports())
            else:
                self._wake()
        return self._next

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _deliver_reports(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._next is not None:
                    # Swapped before the await: entries during the turn belong to the next one.
                    self._in_flight, self._next = self._next, None
                    try:
                        await self._deliver(self._in_flight)
                    # Broad: any error of the turn must reach the waiting callers, or their slots hang forever.
                    except Exception as problem:
                        _fail_waiters(self._in_flight, problem)
                self._in_flight = None
                if self._is_ending:
                    return
                self._idle = loop.create_future()
                await self._idle
        finally:
            self._sender = self._in_flight = self._idle = None
            self._is_ending = False

    async def _deliver(self, batch: _TurnBatch) -> None:
        reported = [one for one in batch.reported if isinstance(one, Report) or one.pending]
        reports = tuple([one if isinstance(one, Report) else one.report() for one in reported])
        claims = [given for given in batch.claims if not given.done()]  # a cancelled slot takes nothing more
        # Spare orders serve the first claims; claiming more would lease orders that no slot can run.
        spare = self._handle.spare
        capacity = max(0, len(claims) - len(spare))
        turn = Turn(worker_id=self._handle.worker_id, reports=reports, capacity=capacity, pools=self._pools)
        answer = await self._control_plane.turn(turn)
        if reports:
            crash_point("worker.reported")
        for one, verdict in zip(reported, answer.verdicts, strict=True):
            if isinstance(one, Journal):
                _apply_answer(one, verdict, answer)
        # Orders of slots that were cancelled meanwhile stay in `spare`: they are leased to this worker, and otherwise
        # would wait until the lease expires.
        self._handle.receive(answer.orders)
        for given in batch.claims:
            if not given.done():
                given.set_result(spare.pop(0) if spare else None)
        for arrived in batch.waiting:
            if not arrived.done():
                arrived.set_result(None)


def _apply_answer(journal: Journal, verdict: ReportResult, answer: TurnAnswer) -> None:
    if verdict not in (ReportResult.ACCEPTED, ReportResult.DUPLICATE):
        journal.lose(verdict)
    journal.note_paused(journal.order_id in answer.paused)
    journal.stop(answer.stopped.get(journal.order_id, ()))


def _fail_waiters(batch: _TurnBatch, problem: Exception) -> None:
    """Raise the error of the turn in all waiting callers."""
    waiters: list[asyncio.Future[Any]] = [*batch.claims, *batch.waiting]
    for waiting in waiters:
        if not waiting.done():
            waiting.set_exception(problem)


# Journal: the entries of one order that are not yet reported.
#
# Entries are sent in the order they were written. An entry that no caller waits for may stay for a moment (design.md
# §3). Entries that must be stored before the next task starts are flushed by the queue.


class LeaseLost(Exception):  # noqa: N818  not an error: another worker has the order now
    """The server did not accept a report: stop, and change nothing more."""


class IterationStopped(Exception):  # noqa: N818  its end is recorded already
    """The server has ended this iteration: stop it, and go on with the others."""


class Journal:
    def __init__(self, order: Order, clock: Clock, worker_id: str) -> None:
        self._order, self._clock, self._worker_id = order, clock, worker_id
        self.order_id = order.order_id
        self._entries: list[Timed] = []
        # Never reset: after a refusal no task of this order may begin.
        self._lost: ReportResult | None = None
        # Paths of iterations or whole levels that the server has ended.
        self.stopped: set[tuple[int, ...]] = set()
        self.paused = False  # as of the last answer

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
        """The entries that are not yet reported."""
        return tuple(self._entries)

    def report(self) -> Report:
        """A report of all entries not yet reported; they are removed from the journal."""
        # A failed turn is sent again unchanged, so the entries need not come back.
        entries, self._entries = tuple(self._entries), []
        return Report(
            order_id=self._order.order_id,
            execution_id=self._order.execution_id,
            lease_epoch=self._order.lease_epoch,
            worker_id=self._worker_id,
            entries=entries,
        )

    def lose(self, verdict: ReportResult) -> None:
        """The server did not accept a report of this order."""
        self._lost = verdict

    def note_paused(self, paused: bool) -> None:
        """Record whether the execution was paused at the last answer."""
        self.paused = paused

    def stop(self, paths: Iterable[tuple[int, ...]]) -> None:
        """Record iterations that the server has ended."""
        self.stopped.update(paths)

    def check(self) -> None:
        """Raise LeaseLost if this worker no longer holds the order."""
        if self._lost is not None:
            raise LeaseLost(self._lost.value)


class ReportWriter:
    def __init__(self, mask: Mask, max_payload_bytes: int, control_plane: ControlPlane, execution_id: str) -> None:
        self._mask, self._max_payload_bytes = mask, max_payload_bytes
        self._control_plane, self._execution_id = control_plane, execution_id

    def _keep_as_is(self, value: Any) -> Reference:
        return self._control_plane.keep(value, self._execution_id)

    def keep(self, value: Any) -> Reference:
        """Store a value for a tool, masked like any other. Raises ToolError `result.too_large`."""
        if not fits(value, MAX_RESULT_BYTES):
            error = too_large()
            raise ToolError(error.kind, error.message)
        return self._keep_as_is(self._mask.redactor.data(value))

    def processed(self, raw: TaskProcessed) -> tuple[TaskProcessed, TaskProcessed]:
        """The record of a task run, and the result with which its pipeline continues: the same, unless it has a
        secret."""
        # Masked before large values are stored apart, so that those are stored without secrets too.
        clean = masked(raw, self._mask.redactor)
        recorded = fitted_entry(clean, self._max_payload_bytes, self._keep_as_is)
        return recorded, recorded if clean is raw else raw

    def started(self, started: TaskStarted, args: Any) -> TaskStarted:
        """The start of a task with its rendered args (V2C-26)."""
        if not isinstance(args, dict):
            return started
        clean = self._mask.redactor.data(args)
        fitting = fits(clean, self._max_payload_bytes)
        args_field = {"args": clean} if fitting else {"args_ref": self._keep_as_is(clean)}
        return with_changes(started, args_field)

    def fitted(self, done: StepDone) -> StepDone:
        """The end of a step whose result was assembled from those of tasks, with a large result stored apart."""
        return fitted_entry(self.masked(done), self._max_payload_bytes, self._keep_as_is)

    def text(self, text: str) -> str:
        """A text without secrets, for a tool that cuts or changes it."""
        return self._mask.redactor.text(text)

    def holds_secret(self, value: Any) -> bool:
        """Whether plain data contains a secret."""
        return self._mask.redactor.data(value) is not value

    def masked(self, record: Record) -> Record:
        return masked(record, self._mask.redactor)

    def ended(self, end: StepDone | StepFailed | CaseWaiting) -> StepDone | StepFailed | CaseWaiting:
        """The end of a pipeline in its recorded form."""
        return fitted_entry(masked(end, self._mask.redactor), self._max_payload_bytes, self._keep_as_is)
