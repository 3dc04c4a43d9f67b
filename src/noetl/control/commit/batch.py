"""Commit batch: what is decided for one or several executions and stored in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from noetl.base.errors import BackendError
from noetl.control.claiming.orders import order_rows, terms_of
from noetl.control.claiming.ready_orders import OrderReceiver
from noetl.control.commit.loaded_executions import DecidedEvents, LoadedExecution, LoadedExecutions
from noetl.control.notifications.notices import NoticeWriter
from noetl.engine.commands import Command, DeliverMessage, RecordReport
from noetl.engine.decision import CloseOrder, Decision, Effect, EndExecution
from noetl.engine.plan import Plan
from noetl.events.encoding import encode_payload
from noetl.events.envelope import Event
from noetl.events.large_values import set_apart
from noetl.events.orders import LeaseTerms, Order
from noetl.store.contract import Commit, ExecutionRow, StoreSpace
from noetl.store.notices import NoticeRow
from noetl.store.waits import outside_rows


class NotStoredError(BackendError):
    """A large value could not be stored apart. That is the trouble of its own execution, not of the others."""


class CommitBatch:
    """Decisions in the order they were made."""

    def __init__(self) -> None:
        # By execution, in the order they were first decided upon, which is the order of their commits in the
        # transaction.
        self._decisions: dict[str, list[Decision]] = {}
        self._events: dict[str, DecidedEvents] = {}
        self._taken: dict[str, list[str]] = {}  # messages, by the execution that they were delivered to
        # Orders that end without a report of their holder, by execution: it has to be told to stop.
        self._stopped: dict[str, list[str]] = {}
        # Everything that memory may be ahead of the log in. A failed commit forgets exactly these.
        self.touched: set[str] = set()
        self._touching: set[str] = set()  # what whoever decides now has used, for good or not
        self._room: dict[str, StoreSpace] = {}  # the pools that orders are taken from, and how many may be
        self.given: dict[OrderReceiver, list[Order]] = {}  # claimed for workers that wait
        self.at_the_end: list[Callable[[], None]] = []  # of the batch, stored or not

    def note_touched_in(self, touched: set[str]) -> None:
        """From now on another one decides, who wants to know what it has used."""
        self._touching = touched

    def limit_to(self, room: dict[str, StoreSpace]) -> None:
        """Orders of these pools are claimed, and no more than there is room for."""
        self._room |= room

    def touch(self, execution_id: str) -> None:
        """Before it is decided upon: should that break in the middle, what memory has of it is not to be trusted."""
        self.touched.add(execution_id)
        self._touching.add(execution_id)

    def drop(self, execution_ids: Collection[str]) -> None:
        """What was decided upon these executions is not to be stored."""
        self.touched.difference_update(execution_ids)
        for execution_id in execution_ids:
            for known in (self._decisions, self._events, self._taken, self._stopped):
                known.pop(execution_id, None)
        # Claims for waiting workers are decisions too; they are undone with the execution they belong to.
        for hand, orders in self.given.items():
            self.given[hand] = [order for order in orders if order.execution_id not in execution_ids]

    def add(self, execution_id: str, command: Command, decision: Decision, plan: Plan) -> None:
        """NotStoredError where something of it could not be stored apart."""
        # Nothing to store. An empty commit would only raise conflicts.
        if not decision.events:
            return
        decided = self._events.get(execution_id)
        if decided is None:
            decided = self._events[execution_id] = DecidedEvents()
        _note(decided, decision.events, plan)
        self._decisions.setdefault(execution_id, []).append(decision)
        if type(command) is DeliverMessage:
            self._taken.setdefault(execution_id, []).append(command.message_id)
        # The worker that reports knows that its order ends. Others have to be told.
        reported = command.report.order_id if type(command) is RecordReport else None
        for effect in decision.effects:
            if type(effect) is CloseOrder and effect.order_id != reported:
                self._stopped.setdefault(execution_id, []).append(effect.order_id)

    def event_count(self, execution_id: str) -> int:
        """How many events it has of this execution so far."""
        decided = self._events.get(execution_id)
        return len(decided.events) if decided is not None else 0

    def decided(self, execution_id: str) -> DecidedEvents:
        """What was decided upon it."""
        return self._events[execution_id]

    @property
    def stopped(self) -> list[str]:
        """Orders that nobody wants any more, though somebody may be at work on them."""
        return [order_id for own in self._stopped.values() for order_id in own] if self._stopped else []

    def commits(
        self, loaded: LoadedExecutions, now: float, terms: LeaseTerms, notices: NoticeWriter | None
    ) -> list[Commit]:
        commits = [
            _commit(
                loaded[execution_id],
                own,
                self._events[execution_id],
                self._taken.get(execution_id, ()),
                now,
                terms,
                self._notices(loaded[execution_id], notices) if notices is not None else (),
            )
            for execution_id, own in self._decisions.items()
        ]
        if self._room and commits:
            # The capacity is checked once for the transaction, so it may travel with any of its commits.
            commits[0] = msgspec.structs.replace(commits[0], room=tuple(self._room.values()))
        return commits

    def _notices(self, loaded: LoadedExecution, notices: NoticeWriter) -> tuple[NoticeRow, ...]:
        execution = loaded.execution
        events = self._events[execution.execution_id].events
        return notices.rows(loaded.plan.net, execution, events, created_at=loaded.created_at)

    def ended_executions(self) -> list[str]:
        """The executions that are over with it."""
        return [
            execution_id
            for execution_id, own in self._decisions.items()
            if [1 for decision in own for effect in decision.effects if type(effect) is EndExecution]
        ]


def _note(decided: DecidedEvents, events: tuple[Event, ...], plan: Plan) -> None:
    """The events as they are and as the log has them. What is too large goes to the results store first: here, so that
    whatever the payload is and whoever made it, no event names what is not there (RES-01, RES-03)."""
    bodies = [encode_payload(event.payload) for event in events]
    sizes_bytes = list(map(len, bodies))
    stored = list(events)
    if max(sizes_bytes) > plan.inline_bytes:
        for place, size_bytes in enumerate(sizes_bytes):
            if size_bytes > plan.inline_bytes:
                stored[place] = _stored(events[place], plan)
                bodies[place] = encode_payload(stored[place].payload)
    decided.events.extend(events)
    decided.sizes_bytes.extend(sizes_bytes)
    decided.stored.extend(stored)
    decided.bodies.extend(bodies)


def _stored(event: Event, plan: Plan) -> Event:
    try:
        payload = set_apart(event.payload, plan.inline_bytes, plan.keep)
    except BackendError as problem:
        raise NotStoredError(str(problem)) from problem
    return event if payload is event.payload else msgspec.structs.replace(event, payload=payload)


def _commit(
    loaded: LoadedExecution,
    decisions: list[Decision],
    decided: DecidedEvents,
    taken: Sequence[str],
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
            last_seq=execution.seq,
            created_at=loaded.created_at,
            finished_at=execution.lifecycle.finished_at,
            parent_execution_id=execution.origin.parent_execution_id,
            wake_at=execution.wake_at,
        ),
        events=tuple(decided.stored),
        bodies=tuple(decided.bodies),
        orders=order_rows(execution.execution_id, effects, now=now, ttl_of=partial(_ttl_of, loaded, terms)),
        # With its first commit an execution brings its net, so that no log exists whose net is missing.
        net=loaded.plan.net_json() if loaded.committed == 0 else None,
        waits=waits,
        closed_waits=closed_waits,
        taken_messages=tuple(taken),
        tasks=tasks,
        notices=notices,
    )


def _ttl_of(loaded: LoadedExecution, usual: LeaseTerms, step_run_id: str) -> float:
    """One whose step run has ended meanwhile is of no interest to anybody."""
    run = loaded.execution.runs.get(step_run_id)
    return usual.ttl_s if run is None else terms_of(loaded.plan, run.step, usual).ttl_s
