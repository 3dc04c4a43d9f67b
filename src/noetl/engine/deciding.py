"""Deciding: the engine's one door. `decide` is pure; `advance` lets the state speak until it rests.

Given the same net, state and command, the same events come out, with the same ids. Nothing here waits, reads a clock
or knows a store.
"""

from __future__ import annotations

from typing import assert_never

from noetl.engine.admission import admit
from noetl.engine.commands import (
    CancelExecution,
    ClaimOrder,
    Command,
    PauseExecution,
    Proceed,
    RecordReport,
    ResumeExecution,
    StartExecution,
)
from noetl.engine.control import control
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Due, Execution
from noetl.engine.finishing import finish
from noetl.engine.in_place import run_in_place
from noetl.engine.listening import hear, only_listeners, stop_listening
from noetl.engine.loops.driving import drive
from noetl.engine.plan import Plan
from noetl.engine.reporting import claim, record
from noetl.engine.routing import route
from noetl.engine.settling import Unsettled, unstuck
from noetl.engine.starting import start
from noetl.engine.withdrawal import all_but, withdraw
from noetl.ids import derived

_HELD_WHILE_PAUSED = frozenset({Due.ADMIT, Due.LOOP, Due.HEAR})  # what would dispatch something new (SRV-07)


def decide(plan: Plan, execution: Execution, command: Command) -> Decision:
    """What `command` leads to. Changes nothing."""
    match command:
        case StartExecution():
            return start(plan, execution, command)
        case ClaimOrder():
            return claim(execution, command)
        case RecordReport():
            return record(plan, execution, command)
        case PauseExecution() | ResumeExecution() | CancelExecution():
            return control(execution, command)
        case Proceed():
            return _proceed(plan, execution, command.at)
        case _:
            assert_never(command)


def advance(plan: Plan, execution: Execution, command: Command) -> Decision:
    """Decide `command`, then whatever it makes due, applying each event, until the state rests."""
    decision = decide(plan, execution, command)
    verdict, stopped = decision.verdict, decision.stopped
    events, effects = list(decision.events), list(decision.effects)
    unsettled = Unsettled()
    while decision.events:
        for event in decision.events:
            unsettled.apply(execution, event)
        decision = unsettled.next(plan, execution, command.at)
        if not decision.events:
            decision = decide(plan, execution, Proceed(at=command.at))
        events += decision.events
        effects += decision.effects
    return Decision(events=tuple(events), effects=tuple(effects), verdict=verdict, stopped=stopped)


def _proceed(plan: Plan, execution: Execution, at: float) -> Decision:
    if not execution.is_open or execution.seq == 0:
        return Decision()
    if execution.error is not None and execution.tokens and plan.net.executor.fail_fast:
        return _stop_others(execution, at)
    item = next(iter(execution.agenda.items()), None)
    if item is not None and execution.paused and item[1] in _HELD_WHILE_PAUSED:
        item = next((one for one in execution.agenda.items() if one[1] not in _HELD_WHILE_PAUSED), None)
    if item is not None:
        return _do(plan, execution, *item, at)
    if not execution.tokens:
        return finish(execution, at)
    if only_listeners(execution) and not execution.paused:
        return stop_listening(plan, execution, at)
    is_stuck = not execution.runs and not execution.agenda and not execution.paused
    return unstuck(plan, execution, at) if is_stuck else Decision()


def _stop_others(execution: Execution, at: float) -> Decision:
    """`failure.mode: fail_fast` of the executor: the first failure ends everybody (ROUTE-08)."""
    draft = Draft(execution, at, derived("fail_fast", execution.execution_id))
    withdraw(draft, execution, all_but(execution))
    return draft.decision()


def _do(plan: Plan, execution: Execution, key: str, due: Due, at: float) -> Decision:
    match due:
        case Due.ADMIT:
            return admit(plan, execution, execution.tokens[key], at)
        case Due.RUN:
            return run_in_place(plan, execution, execution.runs[key], at)
        case Due.LOOP:
            return drive(plan, execution, execution.runs[key], at)
        case Due.HEAR:
            run = execution.runs[key]
            return hear(plan, execution, run, run.heard, at, kept=True)
        case Due.ROUTE:
            return route(plan, execution, execution.runs[key], at)
        case _:
            assert_never(due)
