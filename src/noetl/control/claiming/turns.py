"""Turns: the reports of a worker are recorded and its next orders claimed, in one batch of the group commit
(performance.md §2). Also long polls: remote workers that wait for an order.

Orders that a batch makes ready are claimed for waiting workers in the same batch, so that the start of an execution and
its first claim are one commit instead of two. A poll that ends while a batch claims for it waits for the end of that
batch: either its orders are stored and are in its answer, or they stay unclaimed. Orders that become ready in another
way, from other servers or by the sweep, are announced by a wake-up and claimed by the worker that receives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, NoetlError, UnreadableError
from noetl.control.claiming.claims import Claims
from noetl.control.claiming.ready_orders import LocalWorker, ReadyOrders
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Decisions
from noetl.control.commit.effects import Effects
from noetl.control.commit.group_commit import DecideAgainError, GroupCommit
from noetl.control.commit.sharing import SharingPolicy
from noetl.engine.commands import RecordReport
from noetl.engine.decision import Decision
from noetl.events.orders import Order, Report, ReportResult, Timed, Turn, TurnAnswer
from noetl.events.steps import CaseStarted, StepFailed
from noetl.events.tasks import TaskProcessed

# Entries of a report that are decided at once. As SHARED_EVENTS of the group commit: an entry makes at least one event.
MOST_ENTRIES = 64


class Turns:
    """Takes the turns of workers: reports and claims."""

    def __init__(
        self, group_commit: GroupCommit, decisions: Decisions, claims: Claims, clock: Clock, policy: SharingPolicy
    ) -> None:
        self._group_commit, self._decisions, self._claims = group_commit, decisions, claims
        self._clock, self._policy = clock, policy

    async def take(self, turn: Turn) -> TurnAnswer:
        """Record the reports of a turn and claim orders for it. On a server every report is a decision of its own: an
        execution that another server contests does not delay the other reports."""
        if self._policy.isolates_executions:
            parts_of_reports = [split_report(report) for report in turn.reports]
            recordings = [
                (part.execution_id, partial(self._record_safely, part)) for parts in parts_of_reports for part in parts
            ]
            # Last, and in the same group as the reports: orders that they make ready may be claimed in this turn.
            claim = (None, partial(self._claims.claim, turn))
            *decisions, orders = await self._group_commit.decide_each([*recordings, claim])
            # Raised after all were decided, so that the others are stored. The worker repeats the turn, and a report
            # that was recorded before changes nothing.
            for result in (*decisions, orders):
                if isinstance(result, BaseException):
                    raise result
            remaining = iter(decisions)
            of_reports = [_joined_decisions([next(remaining) for _ in parts]) for parts in parts_of_reports]
            return self._answer(turn, of_reports, orders)

        async def decide_turn(batch: CommitBatch) -> TurnAnswer:
            # Reports first: they free the slot, and often make the order ready that is claimed next.
            decisions = [await self._record(report, batch) for report in turn.reports]
            return self._answer(turn, decisions, await self._claims.claim(turn, batch))

        return await self._group_commit.run(decide_turn)

    def _answer(self, turn: Turn, decisions: Sequence[Decision], orders: Sequence[Order]) -> TurnAnswer:
        verdicts, stopped, paused = [], {}, []
        for report, decision in zip(turn.reports, decisions, strict=True):
            verdicts.append(decision.verdict)
            if decision.stopped:
                stopped[report.order_id] = decision.stopped
            loaded = self._decisions.loaded.get(report.execution_id)
            if loaded is not None and loaded.execution.lifecycle.paused:
                paused.append(report.order_id)
        return TurnAnswer(verdicts=tuple(verdicts), orders=tuple(orders), stopped=stopped, paused=tuple(paused))

    async def _record(self, report: Report, batch: CommitBatch) -> Decision:
        await self._decisions.load(report.execution_id)
        return self._decisions.decide(batch, report.execution_id, RecordReport(at=self._clock.now(), report=report))

    async def _record_safely(self, report: Report, batch: CommitBatch) -> Decision:
        """Record a report. If its execution cannot be processed, the report is refused, so that the other reports of
        the worker arrive (P8)."""
        quarantine = self._decisions.quarantine
        if quarantine.holds(report.execution_id):
            return Decision(verdict=ReportResult.REFUSED)
        try:
            return await self._record(report, batch)
        except Exception as problem:
            # A NoetlError is an answer to this worker, and an unreachable store concerns all callers: both are raised.
            # Any other error belongs to this execution alone: its log cannot be read, or there is a defect.
            is_ours = isinstance(problem, NoetlError) and not isinstance(problem, BackendError)
            if is_ours or (isinstance(problem, BackendError) and not isinstance(problem, UnreadableError)):
                raise
            quarantine.note(report.execution_id, problem)
            # Undo what it touched, then decide again: the quarantine above refuses the report this time.
            raise DecideAgainError from problem


def split_report(report: Report) -> list[Report]:
    """Split a long report into parts that are decided one after another, so that others do not wait for all of it
    (P8)."""
    entries = report.entries
    # The split is safe because a repeated report changes nothing: if the second part fails, the worker sends all of it
    # again.
    if len(entries) <= MOST_ENTRIES or any(_concerns_all_entries(timed) for timed in entries):
        return [report]
    parts = (entries[at : at + MOST_ENTRIES] for at in range(0, len(entries), MOST_ENTRIES))
    return [msgspec.structs.replace(report, entries=part) for part in parts]


def _concerns_all_entries(timed: Timed) -> bool:
    """Whether an entry needs the whole report: writes of iterations are compared with each other (O-15), and a failed
    step ends all iterations."""
    entry = timed.entry
    if isinstance(entry, TaskProcessed | CaseStarted):
        return bool(entry.decision.set_ctx)
    return isinstance(entry, StepFailed)


def _joined_decisions(parts: Sequence[Decision]) -> Decision:
    """One decision for all parts of a report. A part may be a duplicate, after an earlier part or turn; the report is
    accepted then. A part that was fenced makes the report fenced."""
    if len(parts) == 1:
        return parts[0]
    verdicts = [part.verdict for part in parts]
    # By importance for the worker: that it lost its lease, then that it was refused.
    by_importance = (ReportResult.FENCED, ReportResult.REFUSED, ReportResult.ACCEPTED)
    verdict = next((verdict for verdict in by_importance if verdict in verdicts), verdicts[-1])
    return Decision(verdict=verdict, stopped=tuple(path for part in parts for path in part.stopped))


IsGone = Callable[[], Awaitable[bool]]


class Poll:
    """The long poll of a remote worker. `is_gone` says whether its connection is closed."""

    def __init__(self, turn: Turn, is_gone: IsGone) -> None:
        self.turn, self.is_gone = turn, is_gone
        self.orders: tuple[Order, ...] = ()
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.free = asyncio.Event()  # set while no batch claims for this poll
        self.free.set()

    def give(self, orders: Sequence[Order]) -> None:
        """Answer the poll with orders whose claim is stored."""
        self.orders = tuple(orders)
        if not self.answered.done():
            self.answered.set_result(None)


class Polls:
    """The workers that wait for an order. `local_worker` is the worker in this process, which needs no poll."""

    def __init__(self, claims: Claims, ready: ReadyOrders, effects: Effects, local_worker: LocalWorker | None) -> None:
        self._claims, self._ready, self._effects, self._local_worker = claims, ready, effects, local_worker
        # An ordered set: the poll that has waited longest gets orders first.
        self._open: dict[Poll, None] = {}

    async def wait(self, turn: Turn, is_gone: IsGone, wakeups: Awaitable[bool]) -> tuple[Order, ...]:
        """Wait until a batch has claimed orders for this turn. Returns no orders when `wakeups` ends first: a wake-up
        came, or the time of the poll is over."""
        poll, wakeup = Poll(turn, is_gone), asyncio.ensure_future(wakeups)
        either: tuple[asyncio.Future[Any], ...] = wakeup, poll.answered
        self._open[poll] = None
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._open[poll]
            was_woken = wakeup.done() and wakeup.result()
            wakeup.cancel()
        # A batch may be claiming for this poll right now. Leaving would lose orders that it is about to store.
        await poll.free.wait()
        if poll.orders and was_woken:
            # The wake-up was for another order, which this worker does not look for now: wake another worker.
            self._effects.notify_workers()
        return poll.orders

    async def hand_out(self, batch: CommitBatch) -> None:
        """Claim ready orders for the worker in this process, as many as it has free slots."""
        # Called at every commit: without such a worker, or without orders, it must cost nothing.
        worker = self._local_worker
        if worker is not None and self._ready and worker.free:
            turn = Turn(worker_id=worker.worker_id, capacity=worker.free)
            batch.claimed_for[worker] = await self._claims.claim(turn, batch)

    def claims(self) -> list[Callable[[CommitBatch], Awaitable[None]]]:
        """The decision that claims for all open polls, made at the end of a batch; none without polls."""
        return [self._claim_for_polls] if self._open else []

    async def _claim_for_polls(self, batch: CommitBatch) -> None:
        refused: set[tuple[str, tuple[str, ...]]] = set()
        for poll in list(self._open):
            turn = poll.turn
            worker = turn.worker_id, turn.pools
            # Several polls of one worker see the same orders: one refusal is enough. Nothing is claimed for a closed
            # connection: the order would wait until its lease runs out.
            if worker in refused or poll.orders or not self._claims.has_for(turn) or await poll.is_gone():
                continue
            # `is_gone` has awaited: the poll may have ended meanwhile.
            if poll in self._open and not await self._claim(poll, batch):
                refused.add(worker)

    async def _claim(self, poll: Poll, batch: CommitBatch) -> bool:
        """Claim orders for a poll; False when there were none for it."""
        poll.free.clear()
        # Runs whether the commit succeeds or not; otherwise the poll would wait forever.
        batch.on_end.append(poll.free.set)
        earlier = batch.claimed_for.get(poll, [])
        # `holding` is cleared: the turn looked for unanswered orders before the worker began to wait.
        wanted = msgspec.structs.replace(poll.turn, capacity=poll.turn.capacity - len(earlier), holding=None)
        claimed = await self._claims.claim(wanted, batch)
        if claimed:
            batch.claimed_for[poll] = [*earlier, *claimed]
        return bool(claimed)
