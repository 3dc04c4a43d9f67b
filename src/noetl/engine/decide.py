"""Deciding: the engine's one door. `decide` is pure; `advance` lets the state speak until it rests.

Given the same net, state and command, the same events come out, with the same ids. Nothing here waits, reads a clock
or knows a store.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from noetl.base.ids import derived
from noetl.engine import commands
from noetl.engine.admission import admit
from noetl.engine.compensation import before_the_end, compensate
from noetl.engine.decision import NOTHING, Decision, Draft, Effect
from noetl.engine.execution import Due, Execution
from noetl.engine.handlers import handle
from noetl.engine.lifecycle import child_effects, control, finish, start
from noetl.engine.limit_changes import change_limit
from noetl.engine.loops.next_action import drive
from noetl.engine.lost_leases import lose
from noetl.engine.plan import Plan
from noetl.engine.reports import claim, record
from noetl.engine.routing import route
from noetl.engine.server_side_steps import run_in_place
from noetl.engine.settle import Unsettled, unstuck
from noetl.engine.token_creation import enqueue
from noetl.engine.v2_case.listeners import deliver_events, only_listeners, stop_listening
from noetl.engine.waits.delivery import cancel_timer, deliver_message, deliver_signal, inject
from noetl.engine.waits.due_timers import fire
from noetl.engine.waits.human_task_actions import act
from noetl.engine.waits.wait_start import arm
from noetl.engine.withdrawal import all_but, withdraw
from noetl.events.envelope import Event

# What would dispatch something new (SRV-07).
_HELD_WHILE_PAUSED = frozenset({Due.ADMIT, Due.LOOP, Due.HEAR, Due.HANDLE, Due.COMPENSATE})

# Commands of somebody outside, which may compete with a timer of the same step. What decides is the order of the
# moments, not which server was quicker.
_SPOKEN = (
    commands.RecordReport,
    commands.DeliverMessage,
    commands.DeliverSignal,
    commands.InjectEvent,
    commands.CancelTimer,
    commands.ChangeLimit,
    commands.ActOnTask,
)


def decide(plan: Plan, execution: Execution, command: commands.Command) -> Decision:
    """What `command` leads to. Changes nothing."""
    match command:  # the two of every step first
        case commands.RecordReport():
            return record(plan, execution, command)
        case commands.ClaimOrder():
            return claim(execution, command)
        case commands.Proceed():
            return _proceed(plan, execution, command.at, fires=command.fires)
        case commands.StartExecution():
            return start(plan, execution, command)
        case commands.LoseOrder():
            return lose(execution, command)
        case commands.PauseExecution() | commands.ResumeExecution() | commands.CancelExecution():
            return control(execution, command)
        case commands.DeliverMessage():
            return deliver_message(execution, command)
        case commands.DeliverSignal():
            return deliver_signal(execution, command)
        case commands.InjectEvent():
            return inject(execution, command)
        case commands.CancelTimer():
            return cancel_timer(execution, command)
        case commands.ChangeLimit():
            return change_limit(plan, execution, command)
        case commands.ActOnTask():
            return act(execution, command)
        case commands.Wake():
            return _proceed(plan, execution, command.at, fires=True)
        case _:
            assert_never(command)


def advance(plan: Plan, execution: Execution, command: commands.Command) -> Decision:
    """Decide `command`, then whatever it makes due, applying each event, until the state rests. What time had made due
    before somebody spoke comes first (TMR-05)."""
    moment = execution.wake_at
    if moment is None or moment > command.at or not isinstance(command, _SPOKEN):
        return _to_rest(plan, execution, command)
    woken = _to_rest(plan, execution, commands.Wake(at=command.at))
    own = _to_rest(plan, execution, command)
    return msgspec.structs.replace(own, events=woken.events + own.events, effects=woken.effects + own.effects)


def _to_rest(plan: Plan, execution: Execution, command: commands.Command) -> Decision:
    decision = first = decide(plan, execution, command)
    if not decision.events:
        return decision
    fires = not isinstance(command, commands.ClaimOrder)  # whoever claims an order has it, whatever else is due
    events: list[Event] = []
    effects: list[Effect] = []
    unsettled = Unsettled()
    while decision.events:
        if plan.attributes:
            decision = with_attributes(plan, decision)
        events += decision.events
        effects += decision.effects
        # Applied before anything further is decided: the next decision must see this one. That is why memory has to be
        # forgotten when the commit fails.
        unsettled.apply(execution, decision.events)
        # Joins and parked tokens first: a join that can fire does so before anything else moves (joins.py), and the
        # proofs rely on it.
        decision = unsettled.next(plan, execution, command.at)
        if not decision.events:
            decision = _proceed(plan, execution, command.at, fires=fires)
    effects += child_effects(events)
    return Decision(
        events=tuple(events),
        effects=tuple(effects),
        verdict=first.verdict,
        stopped=first.stopped,
        detail=first.detail,
        problems=first.problems,
    )


def _proceed(plan: Plan, execution: Execution, at: float, *, fires: bool) -> Decision:
    # Over, or not yet begun.
    if execution.lifecycle.status is not None or execution.seq == 0:
        return NOTHING
    if execution.lifecycle.error is not None and execution.tokens and plan.net.executor.fail_fast:
        return _stop_others(execution, at)
    # The oldest: a dict keeps the order in which things came due.
    for key, due in execution.agenda.items() if execution.agenda else ():
        if not execution.lifecycle.paused or due not in _HELD_WHILE_PAUSED:
            return _do(plan, execution, key, due, at)
    # After the agenda: what follows from events that are recorded comes before what time brings.
    nearest = execution.open_waits.due_times.nearest
    if nearest is not None and nearest[0] <= at and fires and not execution.lifecycle.paused:
        return fire(plan, execution, nearest, at)
    if not execution.tokens:
        pending = before_the_end(plan, execution, at)
        return finish(execution, at) if pending is None else pending
    if execution.lifecycle.paused or execution.held.delayed or execution.open_waits.waits:
        return NOTHING  # something will come
    if execution.open_waits.listeners and only_listeners(execution):
        return stop_listening(plan, execution, at)
    is_stuck = not execution.runs and not execution.agenda
    return unstuck(plan, execution, at) if is_stuck else NOTHING


def _stop_others(execution: Execution, at: float) -> Decision:
    """`failure.mode: fail_fast` of the executor: the first failure ends everybody (ROUTE-08)."""
    draft = Draft(execution, at, derived("fail_fast", execution.execution_id))
    withdraw(draft, execution, all_but(execution))
    return draft.decision()


def _do(plan: Plan, execution: Execution, key: str, due: Due, at: float) -> Decision:
    match due:  # the two of every step first
        case Due.ROUTE:
            return route(plan, execution, execution.runs[key], at)
        case Due.ADMIT:
            return admit(plan, execution, execution.tokens[key], at)
        case Due.RUN:
            return run_in_place(plan, execution, execution.runs[key], at)
        case Due.LOOP:
            return drive(plan, execution, execution.runs[key], at)
        case Due.HEAR:
            run = execution.runs[key]
            return deliver_events(plan, execution, run, run.case.heard, at, kept=True)
        case Due.HANDLE:
            return handle(plan, execution, key, at)
        case Due.COMPENSATE:
            return compensate(execution, at)
        case Due.ENQUEUE:
            return enqueue(plan, execution, execution.tokens[key], at)
        case Due.ARM:
            return arm(plan, execution, execution.runs[key], at)
        case _:
            assert_never(due)


# Attributes of tracing: what a step's author wants to find on every event of the step, copied as it is written.


def with_attributes(plan: Plan, decision: Decision) -> Decision:
    """The decision with the attributes of each step on its events (ADV-07)."""
    if not plan.attributes or not decision.events:
        return decision
    return msgspec.structs.replace(decision, events=tuple(_marked(plan, event) for event in decision.events))


def _marked(plan: Plan, event: Event) -> Event:
    found = plan.attributes.get(event.step or "")
    if found is None:
        return event
    return msgspec.structs.replace(event, payload=msgspec.structs.replace(event.payload, attributes=found))
