"""What a new run that begins at a step has from an earlier one.

One token goes to the step, with the arguments it last came with, and sees the variables and results that were there
then. Other tokens that were alive at that moment, open waits, compensations and counts of runs stay with the old run.
"""

from __future__ import annotations

from noetl.engine.evolve import replayed
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.events.rerun_state import CarriedResult, RerunState
from noetl.events.steps import StepScheduled
from noetl.net.net import Net


def why_not(net: Net, step: str) -> str | None:
    """Why a run of `net` cannot begin at `step`, None where it can."""
    known = {one.name: one for one in net.transitions}
    if step not in known:
        return f'this version has no step "{step[:200]}"'
    if known[step].join is not None:
        return f'step "{step}" joins tokens, and one alone does not; begin at a step before it'
    return None


def entry_of(events: list[Event], step: str) -> int | None:
    """The number of the event before the last entry of `step`; None where it was never entered."""
    for event in reversed(events):
        if event.step == step and isinstance(event.payload, StepScheduled):
            return event.seq - 1
    return None


def rerun_state(execution_id: str, trace_id: str, events: list[Event], net: Net, step: str) -> RerunState | None:
    """What is taken over, None where `step` was never entered. `events` are whole, `net` is that of the new run:
    results of steps it does not have are left behind."""
    at = entry_of(events, step)
    if at is None:
        return None
    entered = events[at].payload
    assert isinstance(entered, StepScheduled), "it was found by that"
    before = replayed(execution_id, trace_id, events[:at])
    return RerunState(
        execution_id=execution_id,
        step=step,
        at=at,
        args=before.tokens[entered.token_id].args,
        ctx=before.ctx,
        results=_results(before, net),
    )


def _results(before: Execution, net: Net) -> tuple[CarriedResult, ...]:
    known = {one.name for one in net.transitions}
    return tuple(
        CarriedResult(step=name, result=result) for name, result in before.outputs.results.items() if name in known
    )
