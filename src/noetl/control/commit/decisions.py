"""Decisions: the executions in memory, and what is decided upon them. The inner half of a group commit.

What follows once it is stored is the business of `effects`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, assert_never

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.errors import UnreadableError
from noetl.control.claiming.ready_orders import Ready, ReadyOrders
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.effects import Effects
from noetl.control.commit.loaded_executions import LoadedExecution, LoadedExecutions
from noetl.control.commit.quarantine import Quarantine
from noetl.control.commit.sharing import SharingPolicy
from noetl.control.nested.awaited_children import AwaitedChildren
from noetl.control.notifications.notices import NoticeWriter
from noetl.control.results.result_cache import ResultCache, ResultNotLoadedError
from noetl.engine.commands import CancelExecution, Command, PauseExecution, ResumeExecution
from noetl.engine.decide import advance
from noetl.engine.decision import (
    CancelCalled,
    CancelChildren,
    ChildEffect,
    Decision,
    DispatchStep,
    PauseChildren,
    ResumeChildren,
)
from noetl.engine.execution import Execution
from noetl.events.orders import LeaseTerms
from noetl.store.contract import DEFAULT_POOL, Commit, OrderRow, OrderState, Store

Control = PauseExecution | ResumeExecution | CancelExecution


class Decisions:
    """`values` are results that lie outside, `awaited` the children that step runs wait for, `terms` those of a lease
    unless a step has its own. `notices` says what a commit tells people; without it, nothing."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        policy: SharingPolicy,
        *,
        loaded: LoadedExecutions,
        values: ResultCache,
        ready: ReadyOrders,
        effects: Effects,
        quarantine: Quarantine,
        awaited: AwaitedChildren,
        terms: LeaseTerms,
        notices: NoticeWriter | None = None,
    ) -> None:
        self._store, self._clock, self._policy = store, clock, policy
        self.loaded, self.values, self.ready, self.effects = loaded, values, ready, effects
        self.quarantine, self._awaited, self.terms, self.notices = quarantine, awaited, terms, notices
        self._away: dict[str, ResultNotLoadedError] = {}  # stale ones that cannot be read before something is brought
        self.abandoned: set[tuple[str, int]] = set()  # orders found under a lease whose holder is gone
        self.is_contended = False  # somebody else has moved an execution of ours: its end may come from there

    # inside a batch

    async def load(self, execution_id: str) -> LoadedExecution:
        """The execution as of now."""
        if (loaded := self.loaded.at_hand(execution_id)) is not None:
            return loaded
        await self.follow((execution_id,))
        return await self._read(execution_id)

    async def load_children(self, execution_id: str) -> None:
        """What happens to an execution happens to its children (O-02, O-16): they must be in memory then."""
        if self._policy.has_children_in_memory:
            return
        for child in await self._store.children(execution_id):
            if child.finished_at is None:
                await self.load(child.execution_id)
                await self.load_children(child.execution_id)

    async def follow(self, execution_ids: Iterable[str]) -> None:
        """Catch up with what other servers did to these, where they are in memory and it may have been something."""
        now = self._clock.now()
        if not (suspected := self.loaded.possibly_moved(execution_ids, now)):
            return
        for moved in await self.loaded.catch_up(suspected, now):
            self.effects.note_read(self.loaded[moved].execution)

    async def catch_up(self, execution_ids: Iterable[str]) -> None:
        """Follow what another process has done: paused, resumed, cancelled or taken over; with the orders it left."""
        for moved in await self.loaded.catch_up(list(execution_ids), self._clock.now()):
            await self._offer(self.loaded[moved].execution)

    async def refresh(self) -> None:
        for execution_id in self.loaded.stale:
            try:
                await self._reread(execution_id)
            except UnreadableError as problem:
                if not self._policy.isolates_executions:
                    raise
                self.quarantine.note(execution_id, problem)  # whoever wants it hears of it then; others go on
                self.loaded.drop(execution_id)

    async def _reread(self, execution_id: str) -> None:
        """Where something has to be brought first, the others of a server do not wait for it."""
        away = self._away.get(execution_id)
        if away is None or away.is_over:
            try:
                await self._read(execution_id)
                return
            except ResultNotLoadedError as problem:
                away = self._away[execution_id] = problem
        if self._policy.isolates_executions:
            # Start loading and go on: other executions of this batch do not wait for a slow result store.
            away.begin()
        else:
            await away.fetch()
            await self._read(execution_id)

    async def _read(self, execution_id: str) -> LoadedExecution:
        """As memory has it, else as the log tells it; then what it had offered is read again as well."""
        is_stale = self.loaded.is_stale(execution_id)
        loaded = await self.loaded.load(execution_id, self._clock.now())
        self._away.pop(execution_id, None)
        if is_stale:
            await self._offer(loaded.execution)
        return loaded

    async def _offer(self, execution: Execution) -> None:
        for order in await self._store.orders(execution.execution_id):
            # Memory forgot what it had offered, so offers are rebuilt from the store. Orders abandoned by a dead
            # process look leased there.
            if order.state is OrderState.READY or (order.order_id, order.lease_epoch) in self.abandoned:
                self.ready.add(ready_of(order))
        self.effects.notify_workers()
        self.effects.note_read(execution)

    async def decide_all(self, commands: Sequence[tuple[str, Command]], batch: CommitBatch) -> list[Decision]:
        """Load what the commands concern, then decide them in their order."""
        for execution_id, command in commands:
            await self.load(execution_id)
            if isinstance(command, Control):
                await self.load_children(execution_id)
        return [self.decide(batch, execution_id, command) for execution_id, command in commands]

    def decide(self, batch: CommitBatch, execution_id: str, command: Command) -> Decision:
        loaded = self.loaded[execution_id]
        # Before anything can raise: from here on memory may differ from the log.
        batch.touch(execution_id)
        # It could not be read again yet: what memory has went ahead of the log.
        if self._away and execution_id in self._away and self.loaded.is_stale(execution_id):
            raise self._away[execution_id]
        try:
            decision = advance(loaded.plan, loaded.execution, command)
            batch.add(execution_id, command, decision, loaded.plan)
        finally:
            self.values.check()  # also where it broke: perhaps because something was not at hand
        concerning_children: list[ChildEffect] = []
        for effect in decision.effects:
            if type(effect) is DispatchStep:
                pool = effect.pool or DEFAULT_POOL
                self.ready.add(Ready(execution_id, effect.order_id, priority=effect.priority, pool=pool))
            elif isinstance(effect, ChildEffect):
                concerning_children.append(effect)
        for child_effect in concerning_children:
            # In the same batch, so that parent and children are cancelled together or not at all.
            self._decide_children(batch, execution_id, child_effect)
        return decision

    def _decide_children(self, batch: CommitBatch, execution_id: str, effect: ChildEffect) -> None:
        """Decide for the children what the engine says is to become of them."""
        now, children = self._clock.now(), self.loaded.children(execution_id)
        command: Control
        match effect:
            case PauseChildren():
                command = PauseExecution(at=now, reason=effect.reason)
            case ResumeChildren():
                command = ResumeExecution(at=now, reason=effect.reason)
                self.ready.offer_aside(execution_id)  # its own orders, which nobody could claim meanwhile
            case CancelChildren():
                command = CancelExecution(at=now, reason=effect.reason, compensate=effect.compensate)
                if effect.compensate:
                    children = [one for one in children if self.loaded[one].execution.origin.compensates is None]
            case CancelCalled():
                command = CancelExecution(at=now, reason=effect.reason)
                children = self._awaited.left_by(effect.step_run_id)
            case _:
                assert_never(effect)
        for child in children:
            if child in self.loaded:
                self.decide(batch, child, command)

    # the end of a batch

    async def commit(self, batch: CommitBatch) -> list[Commit]:
        now = self._clock.now()
        commits = batch.commits(self.loaded, now, self.terms, self.notices)
        # A batch may decide nothing, as when all reports in it are repeats. That costs no transaction.
        if commits:
            crash_point("append.before")
            await self._store.commit(commits)
            crash_point("append.after")
        for commit in commits:
            row = commit.execution
            # Memory is as far as the log only now; a failed commit must leave `committed` where it was.
            self.loaded.stored(row.execution_id, batch.decided(row.execution_id), row.last_seq, now)
        return commits

    def forget(self, execution_ids: Collection[str], *, conflicting: bool = False) -> None:
        self.is_contended = self.is_contended or conflicting
        self.loaded.mark_stale(execution_ids, conflicting=conflicting)
        # Their orders were never stored, or may be claimed elsewhere by now.
        self.ready.forget(execution_ids)


def ready_of(order: OrderRow) -> Ready:
    return Ready(order.execution_id, order.order_id, order.lease_epoch, order.priority, order.pool)


# Pending decisions: what callers of the group commit want decided, and what became of it.

Decide = Callable[[CommitBatch], Awaitable[Any]]


class PendingDecision:
    """What one caller wants decided."""

    def __init__(
        self,
        decide: Decide,
        answer: asyncio.Future[Any] | None = None,
        *,
        subject: str | None = None,
        group: object = None,
    ) -> None:
        # `answer`: where the caller waits for the result; None for a caller that runs the batch itself, and for claims
        # of polls, which nobody waits for here. `subject`: the execution it is about, where that is known beforehand.
        # `group`: shared by what has to be decided in the order it was asked for, such as the reports of one turn.
        self.decide, self.answer, self.subject, self.group = decide, answer, subject, group
        # The executions that this decision has used, filled by the batch; `GroupCommit._undo` finds by it who is
        # affected when a decision raises.
        self.touched: set[str] = set()
        self.result: Any = None
        self.problem: BaseException | None = None
        self.tries = 0
        self._is_queued = False
        self.is_settled = False  # stored, or given up

    def enqueue(self) -> bool:
        """Whether it is to be queued now."""
        # A timer and the failure of a batch may both queue the same decision.
        if self.is_settled or self._is_queued:
            return False
        self._is_queued = True
        return True

    def dequeue(self) -> None:
        # Before its batch runs: a decision that is postponed during it may queue again.
        self._is_queued = False

    def is_in_the_way_of(self, other: PendingDecision) -> bool:
        """Whether `other` is about another execution, as far as that is known, and somebody waits for it. What a turn
        claims comes after its reports in any case."""
        if other.subject is not None:
            return other.subject != self.subject
        return other.group is None and other.answer is not None

    async def try_again(self, batch: CommitBatch) -> None:
        """Decide it, for the first time or anew."""
        self.problem, self.touched, self.tries = None, set(), self.tries + 1
        batch.note_touched_in(self.touched)
        self.result = await self.decide(batch)

    def settle(self) -> None:
        """It is stored."""
        self.is_settled = True

    def fail(self, problem: BaseException) -> None:
        """It is given up."""
        self.is_settled = True
        # The decision's own error says more than that of the batch.
        if self.problem is None:
            self.problem = problem

    @property
    def is_unwanted(self) -> bool:
        # A cancelled caller leaves its future done. Deciding for it would store what nobody waits for.
        return self.answer is not None and self.answer.done()

    def resolve_answer(self) -> None:
        # Not settled: it was queued again and will be answered by a later batch.
        if self.answer is None or self.answer.done() or not self.is_settled:
            return
        if self.problem is not None:
            self.answer.set_exception(self.problem)
        else:
            self.answer.set_result(self.result)


def fail(requests: list[PendingDecision], problem: BaseException) -> None:
    for request in requests:
        request.fail(problem)
