"""Commit batch: the decisions on one or several executions that are stored in one transaction. Also pending decisions:
what callers of the group commit want decided, and the outcome of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any

import msgspec

from noetl.base.errors import BackendError
from noetl.control.claiming.orders import order_rows, terms_of
from noetl.control.claiming.ready_orders import OrderReceiver
from noetl.control.commit.loaded_executions import DecidedEvents, LoadedExecution, LoadedExecutions
from noetl.control.notifications.notices import NoticeWriter
from noetl.engine.commands import Command, DeliverMessage, RecordReport
from noetl.engine.decision import CloseOrder, Decision, Effect, EndExecution
from noetl.engine.plan import Plan
from noetl.events.envelope import Event, encode_payload
from noetl.events.large_values import set_apart
from noetl.events.orders import LeaseTerms, Order
from noetl.store.contract import Commit, ExecutionRow, PoolCapacity
from noetl.store.notices import NoticeRow
from noetl.store.row_summary import summary_of
from noetl.store.waits import outside_rows


class NotStoredError(BackendError):
    """A large value could not be put into the results store. Only its own execution fails, not the whole batch."""


class CommitBatch:
    """Decisions in the order they were made."""

    def __init__(self) -> None:
        # By execution, in the order they were first decided upon, which is the order of their commits in the
        # transaction.
        self._decisions: dict[str, list[Decision]] = {}
        self._events: dict[str, DecidedEvents] = {}
        self._delivered: dict[str, list[str]] = {}  # ids of messages, by the execution that received them
        # Orders that end without a report of their holder, by execution: the worker must be asked to stop.
        self._stopped: dict[str, list[str]] = {}
        # Executions in which memory may be ahead of the log. A failed commit forgets exactly these.
        self.touched: set[str] = set()
        # The same for the decision that is being made, so that it can be undone alone.
        self._touched_by_current: set[str] = set()
        self._capacities: dict[str, PoolCapacity] = {}  # of the pools that this batch claims from
        self.claimed_for: dict[OrderReceiver, list[Order]] = {}  # orders claimed here for workers that wait
        self.on_end: list[Callable[[], None]] = []  # called when the batch ends, stored or not

    def record_touched_in(self, touched: set[str]) -> None:
        """The next decision begins: put the executions that it touches into this set."""
        self._touched_by_current = touched

    def enforce_capacity(self, capacities: dict[str, PoolCapacity]) -> None:
        """Have the store refuse the commit if it would lease more orders of these pools than allowed."""
        self._capacities |= capacities

    def touch(self, execution_id: str) -> None:
        """Call before deciding: if deciding raises half-way, the execution in memory cannot be trusted."""
        self.touched.add(execution_id)
        self._touched_by_current.add(execution_id)

    def drop(self, execution_ids: Collection[str]) -> None:
        """Remove all decisions on these executions from the batch."""
        self.touched.difference_update(execution_ids)
        for execution_id in execution_ids:
            for by_execution in (self._decisions, self._events, self._delivered, self._stopped):
                by_execution.pop(execution_id, None)
        # Claims for waiting workers are decisions too; they are undone with the execution they belong to.
        for receiver, orders in self.claimed_for.items():
            self.claimed_for[receiver] = [order for order in orders if order.execution_id not in execution_ids]

    def add(self, execution_id: str, command: Command, decision: Decision, plan: Plan) -> None:
        """Add a decision. NotStoredError when a large value of it could not be stored."""
        # Nothing to store. An empty commit would only raise conflicts.
        if not decision.events:
            return
        decided = self._events.get(execution_id)
        if decided is None:
            decided = self._events[execution_id] = DecidedEvents()
        _add_events(decided, decision.events, plan)
        self._decisions.setdefault(execution_id, []).append(decision)
        if type(command) is DeliverMessage:
            self._delivered.setdefault(execution_id, []).append(command.message_id)
        # The worker that reports knows that its order ends. Any other holder must be asked to stop.
        reported = command.report.order_id if type(command) is RecordReport else None
        for effect in decision.effects:
            if type(effect) is CloseOrder and effect.order_id != reported:
                self._stopped.setdefault(execution_id, []).append(effect.order_id)

    def event_count(self, execution_id: str) -> int:
        """The number of events that this batch has for an execution so far."""
        decided = self._events.get(execution_id)
        return len(decided.events) if decided is not None else 0

    def decided(self, execution_id: str) -> DecidedEvents:
        """The events that this batch has for an execution."""
        return self._events[execution_id]

    @property
    def stopped(self) -> list[str]:
        """Orders that ended, although a worker may still be running them."""
        return [order_id for order_ids in self._stopped.values() for order_id in order_ids] if self._stopped else []

    def commits(
        self, loaded: LoadedExecutions, now: float, terms: LeaseTerms, notices: NoticeWriter | None
    ) -> list[Commit]:
        """The commits for the store, one for each execution."""
        commits = [
            _commit(
                loaded[execution_id],
                decisions,
                self._events[execution_id],
                self._delivered.get(execution_id, ()),
                now,
                terms,
                self._notices(loaded[execution_id], notices) if notices is not None else (),
            )
            for execution_id, decisions in self._decisions.items()
        ]
        if self._capacities and commits:
            # The capacity is checked once for the transaction, so it may travel with any of its commits.
            commits[0] = msgspec.structs.replace(commits[0], room=tuple(self._capacities.values()))
        return commits

    def _notices(self, loaded: LoadedExecution, notices: NoticeWriter) -> tuple[NoticeRow, ...]:
        execution = loaded.execution
        events = self._events[execution.execution_id].events
        return notices.rows(loaded.plan.net, execution, events, created_at=loaded.created_at)

    def ended_executions(self) -> list[str]:
        """The executions that end in this batch."""
        return [
            execution_id
            for execution_id, decisions in self._decisions.items()
            if [1 for decision in decisions for effect in decision.effects if type(effect) is EndExecution]
        ]


def _add_events(decided: DecidedEvents, events: tuple[Event, ...], plan: Plan) -> None:
    """Add events, as the engine made them and as the log stores them. Large values go to the results store here,
    before the commit, so that no stored event refers to a value that is not there (RES-01, RES-03)."""
    bodies = [encode_payload(event.payload) for event in events]
    sizes_bytes = list(map(len, bodies))
    stored = list(events)
    if max(sizes_bytes) > plan.inline_bytes:
        for place, size_bytes in enumerate(sizes_bytes):
            if size_bytes > plan.inline_bytes:
                stored[place] = _with_references(events[place], plan)
                bodies[place] = encode_payload(stored[place].payload)
    decided.events.extend(events)
    decided.sizes_bytes.extend(sizes_bytes)
    decided.stored.extend(stored)
    decided.bodies.extend(bodies)


def _with_references(event: Event, plan: Plan) -> Event:
    """The event with its large values stored and replaced by references."""
    try:
        payload = set_apart(event.payload, plan.inline_bytes, plan.keep)
    except BackendError as problem:
        raise NotStoredError(str(problem)) from problem
    return event if payload is event.payload else msgspec.structs.replace(event, payload=payload)


def _commit(
    loaded: LoadedExecution,
    decisions: list[Decision],
    decided: DecidedEvents,
    delivered: Sequence[str],
    now: float,
    terms: LeaseTerms,
    notices: tuple[NoticeRow, ...],
) -> Commit:
    execution = loaded.execution
    effects: list[Effect] = []
    for decision in decisions:
        effects += decision.effects
    waits, closed_waits, tasks = outside_rows(execution.execution_id, effects)
    return Commit(
        # The optimistic lock: the store refuses the commit if the log of this execution has grown since.
        after=loaded.committed,
        execution=ExecutionRow(
            execution_id=execution.execution_id,
            trace_id=execution.trace_id,
            path=execution.origin.path,
            name=loaded.plan.net.name,
            net_hash=execution.origin.net_hash,
            status=execution.lifecycle.state,
            last_seq=execution.log.seq,
            created_at=loaded.created_at,
            finished_at=execution.lifecycle.finished_at,
            parent_execution_id=execution.origin.parent_execution_id,
            wake_at=execution.wake_at,
            failed_iterations=execution.counts.failed_iterations.failed,
            iterations=execution.counts.failed_iterations.total,
            summary=summary_of(execution),
        ),
        events=tuple(decided.stored),
        bodies=tuple(decided.bodies),
        orders=order_rows(execution.execution_id, effects, now=now, ttl_of=partial(_ttl_of, loaded, terms)),
        # With its first commit an execution brings its net, so that no log exists whose net is missing.
        net=loaded.plan.net_json() if loaded.committed == 0 else None,
        waits=waits,
        closed_waits=closed_waits,
        taken_messages=tuple(delivered),
        tasks=tasks,
        notices=notices,
    )


def _ttl_of(loaded: LoadedExecution, usual: LeaseTerms, step_run_id: str) -> float:
    """How long a lease on an order of this step run lasts."""
    # A later decision of the same batch may have ended the step run. Its lease is never used then.
    run = loaded.execution.runs.get(step_run_id)
    return usual.ttl_s if run is None else terms_of(loaded.plan, run.step, usual).ttl_s


# A function that decides something inside a batch; its return value is the answer to its caller.
Decide = Callable[[CommitBatch], Awaitable[Any]]


class PendingDecision:
    """One caller's request in the queue of the group commit, with its outcome."""

    def __init__(
        self,
        decide: Decide,
        answer: asyncio.Future[Any] | None = None,
        *,
        subject: str | None = None,
        group: object = None,
    ) -> None:
        """`answer` is where the caller waits for the result. It is None for a caller that runs the batch itself, and
        for the claims of polls. `subject` is the execution concerned, if that is known beforehand. Decisions with
        the same `group` are made in the order of the requests, as the reports of one turn are."""
        self.decide, self.answer, self.subject, self.group = decide, answer, subject, group
        # The executions that this decision has used, filled by the batch. When a decision raises, `GroupCommit._undo`
        # finds the other decisions that have seen the same executions.
        self.touched: set[str] = set()
        self.result: Any = None
        self.problem: BaseException | None = None
        self.tries = 0
        self._is_queued = False
        self.is_settled = False  # stored or failed

    def enqueue(self) -> bool:
        """Mark it as queued. False when it is queued or settled already."""
        # A timer and the failure of a batch may both queue the same decision.
        if self.is_settled or self._is_queued:
            return False
        self._is_queued = True
        return True

    def dequeue(self) -> None:
        # Called before its batch runs: a decision that is postponed during the batch may be queued again.
        self._is_queued = False

    def delays(self, other: PendingDecision) -> bool:
        """Whether `other` waits for the batch of this one without needing it: it concerns another execution, or has no
        subject and a waiting caller. The claim of a turn (a group, no subject) follows its own reports anyway."""
        if other.subject is not None:
            return other.subject != self.subject
        return other.group is None and other.answer is not None

    async def make(self, batch: CommitBatch) -> None:
        """Make the decision, for the first time or again."""
        self.problem, self.touched, self.tries = None, set(), self.tries + 1
        batch.record_touched_in(self.touched)
        self.result = await self.decide(batch)

    def settle(self) -> None:
        """The decision is stored."""
        self.is_settled = True

    def fail(self, problem: BaseException) -> None:
        """The decision failed for good."""
        self.is_settled = True
        # An error of the decision itself says more than that of its batch.
        if self.problem is None:
            self.problem = problem

    @property
    def is_abandoned(self) -> bool:
        """Whether its caller was cancelled, which leaves the future done. The decision is not made then."""
        return self.answer is not None and self.answer.done()

    def resolve_answer(self) -> None:
        """Give the caller its result or error."""
        # A decision that is not settled is in the queue again, and a later batch answers it.
        if self.answer is None or self.answer.done() or not self.is_settled:
            return
        if self.problem is not None:
            self.answer.set_exception(self.problem)
        else:
            self.answer.set_result(self.result)


def fail_all(requests: list[PendingDecision], problem: BaseException) -> None:
    for request in requests:
        request.fail(problem)
