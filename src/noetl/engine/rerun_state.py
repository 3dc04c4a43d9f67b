"""What a new run that begins at a step has from an earlier one.

One token goes to the step, with the arguments it last came with, and sees the variables and results that were there
then. Other tokens that were alive at that moment, open waits, compensations and counts of runs stay with the old run.
"""

from __future__ import annotations

import msgspec

from noetl.base.errors import NoRerunError
from noetl.engine.evolve import replayed
from noetl.engine.execution import Execution
from noetl.events.case_runs import CaseStarted
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, LoopCut, LoopDone, LoopKept, LoopStarted
from noetl.events.rerun_state import CarriedResult, KeptIterations, RerunState
from noetl.events.steps import StepFailed, StepScheduled
from noetl.events.tasks import TaskProcessed
from noetl.net.net import Net
from noetl.templates.scopes import V2_CASE


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


# What a run of the failed items of a loop keeps from an earlier run: the results of those that were done (CLI-04).
# Kept are results and nothing else. A loop whose iterations leave something besides, in variables or in the loop
# itself, cannot be taken up so; what cannot be says so, with the way out.
def kept_iterations(events: list[Event], net: Net, step: str, at: int) -> tuple[KeptIterations, int]:
    """Those of the step run that was scheduled after event `at`, and the number of the last event they rely on.
    NoRerunError says why there are none to keep."""
    if (why := _why_not(net, step)) is not None:
        raise NoRerunError(f"{why}; run the whole step again, with --from {step} and without --failed-items")
    run_id = events[at].step_run_id
    own = [event for event in events[at:] if event.step_run_id == run_id]
    opened = next((event.payload for event in own if isinstance(event.payload, LoopStarted)), None)
    if opened is None:
        raise NoRerunError(f'the loop of step "{step}" never began')
    if not any(isinstance(event.payload, LoopDone | StepFailed) for event in own):
        raise NoRerunError(f'the loop of step "{step}" has not ended')
    if (why := next((why for event in own if (why := _leaves_more(event)) is not None), None)) is not None:
        raise NoRerunError(f'{why}; run the whole step again, with --from "{step}" and without --failed-items')
    done, last = _done(own)
    if len(done) == opened.total:
        raise NoRerunError(f'no item of the loop of step "{step}" has failed: there is nothing to run')
    kept = KeptIterations(
        step=step,
        items=opened.items,
        items_ref=opened.items_ref,
        indices=tuple(sorted(done)),
        results=[done[index] for index in sorted(done)],
    )
    return kept, max(last, at)


def _why_not(net: Net, step: str) -> str | None:
    """What of the new version stands against it."""
    loop = next(one for one in net.transitions if one.name == step).loop
    if loop is None:
        return f'step "{step}" has no loop'
    if net.dialect == V2_CASE:
        return f'the loop of step "{step}" follows case rules, whose iterations keep a state of their own'
    if loop.inner is not None:
        return f'the loop of step "{step}" has another one inside it'
    if loop.reducers:
        return f'the loop of step "{step}" reduces what its iterations give'
    if loop.extend or loop.complete_when is not None:
        return f'iterations of step "{step}" change which items there are, or end the loop early'
    return None


def _leaves_more(event: Event) -> str | None:
    match event.payload:
        case TaskProcessed(decision=decision) if decision.set_ctx or decision.set_vars or decision.set_shared:
            return f'iterations of step "{event.step}" write variables, which no result brings back'
        case CaseStarted() | LoopCut():
            return f'the loop of step "{event.step}" ended early, or by rules of its own'
        case LoopStarted(path=path) if path:
            return f'the loop of step "{event.step}" had another one inside it'
        case _:
            return None


def _done(own: list[Event]) -> tuple[dict[int, object], int]:
    """The results of iterations that are done, as plain data, and the last event that tells one."""

    done: dict[int, object] = {}
    last = 0
    for event in own:
        payload = event.payload
        if isinstance(payload, IterationDone) and len(payload.path) == 1:
            done[payload.index] = msgspec.to_builtins(payload.result)
            last = event.seq
        elif isinstance(payload, LoopKept):
            done.update(zip(payload.indices, payload.results, strict=True))
            last = event.seq
    return done, last
