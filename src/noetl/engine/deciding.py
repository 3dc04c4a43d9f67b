"""Deciding: the engine's one door. `decide` is pure; `advance` lets the state speak until it rests.

Given the same net, state and command, the same events come out, with the same ids. Nothing here waits, reads a clock
or knows a store.
"""

from __future__ import annotations

from typing import assert_never

from noetl.engine.admission import admit
from noetl.engine.commands import ClaimOrder, Command, Proceed, RecordReport, StartExecution
from noetl.engine.decision import Decision
from noetl.engine.evolution import evolve
from noetl.engine.execution import Due, Execution
from noetl.engine.finishing import finish
from noetl.engine.in_place import run_in_place
from noetl.engine.plan import Plan
from noetl.engine.reporting import claim, record
from noetl.engine.routing import route
from noetl.engine.starting import start


def decide(plan: Plan, execution: Execution, command: Command) -> Decision:
    """What `command` leads to. Changes nothing."""
    match command:
        case StartExecution():
            return start(plan, execution, command)
        case ClaimOrder():
            return claim(execution, command)
        case RecordReport():
            return record(execution, command)
        case Proceed():
            return _proceed(plan, execution, command.at)
        case _:
            assert_never(command)


def advance(plan: Plan, execution: Execution, command: Command) -> Decision:
    """Decide `command`, then whatever it makes due, applying each event, until the state rests."""
    decision = decide(plan, execution, command)
    verdict = decision.verdict
    events, effects = list(decision.events), list(decision.effects)
    while decision.events:
        for event in decision.events:
            evolve(execution, event)
        decision = decide(plan, execution, Proceed(at=command.at))
        events += decision.events
        effects += decision.effects
    return Decision(events=tuple(events), effects=tuple(effects), verdict=verdict)


def _proceed(plan: Plan, execution: Execution, at: float) -> Decision:
    item = next(iter(execution.agenda.items()), None)
    if item is None:
        over = execution.is_open and execution.seq > 0 and not execution.tokens
        return finish(execution, at) if over else Decision()
    key, due = item
    match due:
        case Due.ADMIT:
            return admit(plan, execution, execution.tokens[key], at)
        case Due.RUN:
            return run_in_place(plan, execution, execution.runs[key], at)
        case Due.ROUTE:
            return route(plan, execution, execution.runs[key], at)
        case _:
            assert_never(due)
