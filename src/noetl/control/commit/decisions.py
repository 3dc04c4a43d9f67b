"""Decisions: loads executions, decides commands on them and stores a batch. The inner half of a group commit; `effects`
is what follows after the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import assert_never

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.errors import UnreadableError
from noetl.control.claiming.ready_orders import ReadyOrder, ReadyOrders
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.effects import Effects
from noetl.control.commit.loaded_executions import LoadedExecution, LoadedExecutions
from noetl.control.commit.quarantine import Quarantine
from noetl.control.commit.result_cache import ResultCache, ResultNotLoadedError
from noetl.control.commit.sharing import SharingPolicy
from noetl.control.notifications.notices import NoticeWriter
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
from noetl.events.orders import LeaseTerms, PlaybookCall
from noetl.store.contract import DEFAULT_POOL, Commit, OrderRow, OrderState, Store

Control = PauseExecution | ResumeExecution | CancelExecution


class Decisions:
    """`values` are large results that are stored apart. `awaited` are the children that step runs wait for. `terms` are
    the lease terms of steps without their own. `notices` makes the notices to people that a commit stores."""

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
        # Stale executions that cannot be read yet, each with the result that is being fetched for it.
        self._missing_results: dict[str, ResultNotLoadedError] = {}
        self.abandoned: set[tuple[str, int]] = set()  # order and epoch: leased in the store by a process that is gone
        self.is_contended = False  # another process has moved an execution of this one, and may end one too

    # inside a batch

    async def load(self, execution_id: str) -> LoadedExecution:
        """The execution as of now, from memory or from the log."""
        if (loaded := self.loaded.current(execution_id)) is not None:
            return loaded
        await self.follow((execution_id,))
        return await self._read(execution_id)

    async def load_children(self, execution_id: str) -> None:
        """Load all open descendants. A pause, resumption or cancellation is decided for them too (O-02, O-16)."""
        if self._policy.has_children_in_memory:
            return
        for child in await self._store.children(execution_id):
            if child.finished_at is None:
                await self.load(child.execution_id)
                await self.load_children(child.execution_id)

    async def follow(self, execution_ids: Iterable[str]) -> None:
        """Catch up with what other servers recorded for those in memory that may be out of date."""
        now = self._clock.now()
        if not (suspected := self.loaded.possibly_moved(execution_ids, now)):
            return
        for moved in await self.loaded.catch_up(suspected, now):
            self.effects.note_read(self.loaded[moved].execution)

    async def catch_up(self, execution_ids: Iterable[str]) -> None:
        """Catch up with the log for all of these, and offer the orders that another process left ready."""
        for moved in await self.loaded.catch_up(list(execution_ids), self._clock.now()):
            await self._offer(self.loaded[moved].execution)

    async def refresh(self) -> None:
        """Read stale executions again from the log."""
        for execution_id in self.loaded.stale:
            try:
                await self._reread(execution_id)
            except UnreadableError as problem:
                if not self._policy.isolates_executions:
                    raise
                # The next command on this execution gets the error; the others of the batch go on.
                self.quarantine.note(execution_id, problem)
                self.loaded.drop(execution_id)

    async def _reread(self, execution_id: str) -> None:
        """Read one execution again, or start to fetch the result that it needs for that."""
        missing = self._missing_results.get(execution_id)
        if missing is None or missing.is_over:
            try:
                await self._read(execution_id)
                return
            except ResultNotLoadedError as problem:
                missing = self._missing_results[execution_id] = problem
        if self._policy.isolates_executions:
            # Start loading and go on: other executions of this batch do not wait for a slow result store.
            missing.begin()
        else:
            await missing.fetch()
            await self._read(execution_id)

    async def _read(self, execution_id: str) -> LoadedExecution:
        """The execution from memory, else from the log. If it was stale, its orders are offered again too."""
        is_stale = self.loaded.is_stale(execution_id)
        loaded = await self.loaded.load(execution_id, self._clock.now())
        self._missing_results.pop(execution_id, None)
        if is_stale:
            await self._offer(loaded.execution)
        return loaded

    async def _offer(self, execution: Execution) -> None:
        """Offer the orders of an execution to workers, as the store has them."""
        for order in await self._store.orders(execution.execution_id):
            # `forget` dropped the offers of this execution. Orders of a dead process still look leased in the store.
            if order.state is OrderState.READY or (order.order_id, order.lease_epoch) in self.abandoned:
                self.ready.add(ready_order(order))
        self.effects.notify_workers()
        self.effects.note_read(execution)

    async def decide_all(self, commands: Sequence[tuple[str, Command]], batch: CommitBatch) -> list[Decision]:
        """Load the executions of the commands, then decide the commands in their order."""
        for execution_id, command in commands:
            await self.load(execution_id)
            if isinstance(command, Control):
                await self.load_children(execution_id)
        return [self.decide(batch, execution_id, command) for execution_id, command in commands]

    def decide(self, batch: CommitBatch, execution_id: str, command: Command) -> Decision:
        """Decide one command on a loaded execution and add the decision to the batch. New orders become ready in
        memory; no worker receives them before the commit."""
        loaded = self.loaded[execution_id]
        # Before anything can raise: from here on memory may differ from the log.
        batch.touch(execution_id)
        # A stale execution that waits for a result is ahead of the log. Nothing may be decided upon it.
        missing = self._missing_results
        if missing and execution_id in missing and self.loaded.is_stale(execution_id):
            raise missing[execution_id]
        try:
            decision = advance(loaded.plan, loaded.execution, command)
            batch.add(execution_id, command, decision, loaded.plan)
        finally:
            # Also after an error: its cause may be the placeholder of a result that was not loaded.
            self.values.check()
        child_effects: list[ChildEffect] = []
        for effect in decision.effects:
            if type(effect) is DispatchStep:
                pool = effect.pool or DEFAULT_POOL
                self.ready.add(ReadyOrder(execution_id, effect.order_id, priority=effect.priority, pool=pool))
            elif isinstance(effect, ChildEffect):
                child_effects.append(effect)
        for child_effect in child_effects:
            # In the same batch, so that parent and children are cancelled together or not at all.
            self._decide_children(batch, execution_id, child_effect)
        return decision

    def _decide_children(self, batch: CommitBatch, execution_id: str, effect: ChildEffect) -> None:
        """Decide what an effect of the engine asks for the children of an execution."""
        now, children = self._clock.now(), self.loaded.children(execution_id)
        command: Control
        match effect:
            case PauseChildren():
                command = PauseExecution(at=now, reason=effect.reason)
            case ResumeChildren():
                command = ResumeExecution(at=now, reason=effect.reason)
                # Orders of the parent itself, which claims laid aside during the pause.
                self.ready.offer_aside(execution_id)
            case CancelChildren():
                command = CancelExecution(at=now, reason=effect.reason, compensate=effect.compensate)
                if effect.compensate:
                    # A child that undoes work has to finish: it is part of the compensation.
                    origins = {child: self.loaded[child].execution.origin for child in children}
                    children = [child for child, origin in origins.items() if origin.compensates is None]
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
        """Store the batch in one transaction; returns what was stored."""
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
        """Give up what was decided and not stored: these executions are read again from the log."""
        self.is_contended = self.is_contended or conflicting
        self.loaded.mark_stale(execution_ids, conflicting=conflicting)
        # Their orders were never stored, or may be claimed elsewhere by now.
        self.ready.forget(execution_ids)


def ready_order(order: OrderRow) -> ReadyOrder:
    """An order of the store, as workers may claim it."""
    return ReadyOrder(order.execution_id, order.order_id, order.lease_epoch, order.priority, order.pool)


class AwaitedChildren:
    """The child executions that step runs wait for, as far as this process knows; a listener of commits."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, PlaybookCall]] = {}  # by step run, then by child

    def __iter__(self) -> Iterator[tuple[str, PlaybookCall]]:
        """Every awaited call, with its step run."""
        return ((run, call) for run, calls in self._calls.items() for call in calls.values())

    def calls_of(self, step_run_id: str) -> list[PlaybookCall]:
        return list(self._calls.get(step_run_id, {}).values())

    def left_by(self, step_run_id: str | None) -> list[str]:
        """The children of a step run that has ended. They stay here until they end themselves: if the commit fails,
        the same decision is made again and needs them."""
        return list(self._calls.get(step_run_id or "", ()))

    def add(self, child_id: str, call: PlaybookCall) -> None:
        self._calls.setdefault(call.step_run_id, {})[child_id] = call

    def remove(self, step_run_id: str, child_id: str) -> None:
        waiting = self._calls.get(step_run_id, {})
        waiting.pop(child_id, None)
        if not waiting:
            self._calls.pop(step_run_id, None)

    def stored(self, commits: Sequence[Commit]) -> None:
        """Remove children that have ended."""
        for commit in commits:
            row = commit.execution
            if row.finished_at is not None and row.parent_execution_id is not None and self._calls:
                for step_run_id in [run for run, children in self._calls.items() if row.execution_id in children]:
                    self.remove(step_run_id, row.execution_id)
