"""The entry points of the engine.

`decide` returns what one command leads to and changes nothing. `advance` decides a command, applies its events, and
repeats that for everything the new state asks for, until nothing is left to decide. The same net, state and command
always give the same events with the same ids. Nothing here waits, reads a clock or knows a store.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from noetl.base.ids import derived
from noetl.engine import commands
from noetl.engine.admission import admit
from noetl.engine.compensation import start_next_compensation, work_before_end
from noetl.engine.decision import NO_CHANGE, Decision, Draft, Effect
from noetl.engine.execution import Due, Execution
from noetl.engine.handlers import start_handler
from noetl.engine.lifecycle import child_effects, control_execution, finish_execution, start_execution
from noetl.engine.limits import change_limit
from noetl.engine.loops.next_action import drive_loop
from noetl.engine.plan import Plan
from noetl.engine.reports import claim_order, give_up_order, record_report
from noetl.engine.routing import route
from noetl.engine.server_side_steps import run_in_place
from noetl.engine.settle import Unsettled, resolve_deadlock
from noetl.engine.token_creation import enqueue_compensated
from noetl.engine.v2_case.listeners import deliver_events, only_listeners, stop_listening
from noetl.engine.waits.delivery import cancel_timer, deliver_message, deliver_signal, inject_event
from noetl.engine.waits.due_timers import fire_due_time
from noetl.engine.waits.human_task_actions import act_on_task
from noetl.engine.waits.wait_start import arm_waits
from noetl.engine.withdrawal import tokens_except, withdraw
from noetl.events.envelope import Event

# Work that dispatches something new. It stays on the agenda of a paused execution until it is resumed (SRV-07).
_HELD_WHILE_PAUSED = frozenset({Due.ADMIT, Due.LOOP, Due.HEAR, Due.HANDLE, Due.COMPENSATE})

# Commands from outside the engine, which may compete with a timer of the same step. The times decide which one wins,
# not which server was faster.
_EXTERNAL_COMMANDS = (
    commands.RecordReport,
    commands.DeliverMessage,
    commands.DeliverSignal,
    commands.InjectEvent,
    commands.CancelTimer,
    commands.ChangeLimit,
    commands.ActOnTask,
)


def decide(plan: Plan, execution: Execution, command: commands.Command) -> Decision:
    """The events and effects of `command`. Changes nothing."""
    # Every step has a report and a claim, so these two are matched first.
    match command:
        case commands.RecordReport():
            return record_report(plan, execution, command)
        case commands.ClaimOrder():
            return claim_order(execution, command)
        case commands.Proceed():
            return _proceed(plan, execution, command.at, fires=command.fires)
        case commands.StartExecution():
            return start_execution(plan, execution, command)
        case commands.LoseOrder():
            return give_up_order(execution, command)
        case commands.PauseExecution() | commands.ResumeExecution() | commands.CancelExecution():
            return control_execution(execution, command)
        case commands.DeliverMessage():
            return deliver_message(plan, execution, command)
        case commands.DeliverSignal():
            return deliver_signal(execution, command)
        case commands.InjectEvent():
            return inject_event(execution, command)
        case commands.CancelTimer():
            return cancel_timer(execution, command)
        case commands.ChangeLimit():
            return change_limit(plan, execution, command)
        case commands.ActOnTask():
            return act_on_task(execution, command)
        case commands.Wake():
            return _proceed(plan, execution, command.at, fires=True)
        case _:
            assert_never(command)


def advance(plan: Plan, execution: Execution, command: commands.Command) -> Decision:
    """Decide `command` and everything that follows from it, and apply each event to `execution`."""
    moment = execution.wake_at
    if moment is None or moment > command.at or not isinstance(command, _EXTERNAL_COMMANDS):
        return _decide_until_settled(plan, execution, command)
    # A timer was due before this command arrived. It fires first, even if no server has come to fire it yet (TMR-05).
    woken = _decide_until_settled(plan, execution, commands.Wake(at=command.at))
    own = _decide_until_settled(plan, execution, command)
    return msgspec.structs.replace(own, events=woken.events + own.events, effects=woken.effects + own.effects)


def _decide_until_settled(plan: Plan, execution: Execution, command: commands.Command) -> Decision:
    decision = first = decide(plan, execution, command)
    if not decision.events:
        return decision
    # A claim fires no timers: the worker that was promised an order gets it, even if a timer has become due.
    fires = not isinstance(command, commands.ClaimOrder)
    events: list[Event] = []
    effects: list[Effect] = []
    unsettled = Unsettled()
    while decision.events:
        if plan.attributes:
            decision = with_attributes(plan, decision)
        events += decision.events
        effects += decision.effects
        # The next decision must see these events, so they are applied before the commit. The caller therefore drops
        # this execution from memory when the commit fails.
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
    """The next thing that the state itself asks for; NO_CHANGE if it waits for a worker, time or input from outside."""
    # The execution is over, or has not begun.
    if execution.lifecycle.status is not None or execution.log.seq == 0:
        return NO_CHANGE
    if execution.lifecycle.error is not None and execution.tokens and plan.net.executor.fail_fast:
        return _stop_others(execution, at)
    # A dict keeps its insertion order, so the first entry is the one that came due first.
    for key, due in execution.agenda.items() if execution.agenda else ():
        if not execution.lifecycle.paused or due not in _HELD_WHILE_PAUSED:
            return _decide_due(plan, execution, key, due, at)
    # Timers come after the agenda: consequences of recorded events come before new events.
    nearest = execution.open_waits.due_times.nearest
    if nearest is not None and nearest[0] <= at and fires and not execution.lifecycle.paused:
        return fire_due_time(plan, execution, nearest, at)
    if not execution.tokens:
        pending = work_before_end(plan, execution, at)
        return finish_execution(execution, at) if pending is None else pending
    if execution.lifecycle.paused or execution.held.delayed or execution.open_waits.waits:
        return NO_CHANGE  # a resume, a timer or the end of a wait moves it
    if execution.open_waits.listeners and only_listeners(execution):
        return stop_listening(plan, execution, at)
    is_stuck = not execution.runs and not execution.agenda
    return resolve_deadlock(plan, execution, at) if is_stuck else NO_CHANGE


def _stop_others(execution: Execution, at: float) -> Decision:
    """Withdraw all tokens: with `failure.mode: fail_fast` the first failure ends the execution (ROUTE-08)."""
    draft = Draft(execution, at, derived("fail_fast", execution.execution_id))
    withdraw(draft, execution, tokens_except(execution))
    return draft.decision()


def _decide_due(plan: Plan, execution: Execution, key: str, due: Due, at: float) -> Decision:
    """Do one entry of the agenda. `key` is the id of a token or of a step run."""
    # Every step is admitted and routed, so these two are matched first.
    match due:
        case Due.ROUTE:
            return route(plan, execution, execution.runs[key], at)
        case Due.ADMIT:
            return admit(plan, execution, execution.tokens[key], at)
        case Due.RUN:
            return run_in_place(plan, execution, execution.runs[key], at)
        case Due.LOOP:
            return drive_loop(plan, execution, execution.runs[key], at)
        case Due.HEAR:
            run = execution.runs[key]
            return deliver_events(plan, execution, run, run.dialect.heard, at, kept=True)
        case Due.HANDLE:
            return start_handler(plan, execution, key, at)
        case Due.COMPENSATE:
            return start_next_compensation(execution, at)
        case Due.ENQUEUE:
            return enqueue_compensated(plan, execution, execution.tokens[key], at)
        case Due.ARM:
            return arm_waits(plan, execution, execution.runs[key], at)
        case _:
            assert_never(due)


# Tracing attributes: the playbook author's labels for a step, copied to every event of the step.


def with_attributes(plan: Plan, decision: Decision) -> Decision:
    """The decision with the attributes of each step on its events (ADV-07)."""
    if not plan.attributes or not decision.events:
        return decision
    return msgspec.structs.replace(
        decision, events=tuple(_with_step_attributes(plan, event) for event in decision.events)
    )


def _with_step_attributes(plan: Plan, event: Event) -> Event:
    attributes = plan.attributes.get(event.step or "")
    if attributes is None:
        return event
    return msgspec.structs.replace(event, payload=msgspec.structs.replace(event.payload, attributes=attributes))
