"""Results as the log tells them, without replaying it: what a step gave, from the few events that say so (O-08).

`evolve` comes to the same; this is for whoever looks at one step of a long execution.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine.waits import times
from noetl.engine.waits.evolution import given_by, result_with
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.loops import LoopDone
from noetl.events.outcomes import Error, TaskResult
from noetl.events.side_runs import StepInterrupted
from noetl.events.steps import StepDone, StepFailed
from noetl.events.waits import MessageReceived, SignalReceived, StepTimeout, TaskCompleted

_RUN_ENDS = (StepDone, StepFailed, LoopDone, StepInterrupted, StepTimeout)
_WAIT_ENDS = (MessageReceived, SignalReceived, TaskCompleted)
TELLING = tuple(kind.event_type for kind in (*_RUN_ENDS, *_WAIT_ENDS))
ENOUGH = 100  # of the newest of them: a wait ends after the pipeline before it, and others of its step in between


class EndedStep(msgspec.Struct, frozen=True):
    """How a step ended: with a result, or with an error."""

    result: TaskResult
    error: Error | None = None


def ended_in(events: Sequence[Event], step: str) -> EndedStep | None:
    """By the newest events of a step that tell (`TELLING`), in their order; None when it has not ended."""
    for position in range(len(events) - 1, -1, -1):
        found = _ended_step(events[position], events[:position], step)
        if found is not None:
            return found
    return None


def carried_in(request: Event, step: str) -> EndedStep | None:
    """What an execution was given of a step that ran in another one."""
    payload = request.payload
    assert isinstance(payload, ExecutionRequested)
    carried = payload.carried.results if payload.carried is not None else ()
    return next((EndedStep(one.result) for one in carried if one.step == step), None)


def _ended_step(event: Event, before: Sequence[Event], step: str) -> EndedStep | None:
    match event.payload:
        case StepDone(result=result):
            return EndedStep(result)
        case LoopDone() as done:
            return EndedStep(TaskResult(result=done.results, ref=done.ref))
        case StepFailed(error=error):
            return EndedStep(TaskResult(), error)
        case StepInterrupted(result=result):  # an error is its handler's, and its arcs' to read
            return EndedStep(result)
        case StepTimeout(action="alternative"):
            return EndedStep(TaskResult(), times.timed_out(step))
        case MessageReceived() | SignalReceived() | TaskCompleted() as payload:
            own = _own(event, before)
            return EndedStep(result_with(own, *given_by(payload))) if own is not None else None
        case _:
            return None


def _own(event: Event, before: Sequence[Event]) -> TaskResult | None:
    """What the pipeline gave before it waited; None for rules that heard of it, whose step ends later."""
    own = (one.payload for one in reversed(before) if one.step_run_id == event.step_run_id)
    return next((payload.result for payload in own if isinstance(payload, StepDone)), None)
