"""Which events of an execution reach the rules of others that listen, and as what (V2C-13, O-27).

Bookkeeping is not delivered: tokens, routing, `ctx`, cases themselves, and whatever only begins.
"""

from __future__ import annotations

import msgspec

from noetl.engine.waits.evolution import event_data, is_told
from noetl.events import waits
from noetl.events.control import Emitted
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, IterationFailed, LoopDone
from noetl.events.steps import StepDenied, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_positions import OwnEvent


def heard_as(event: Event) -> OwnEvent | None:
    """The event as rules of other steps see it, None when they do not."""
    payload = event.payload
    match payload:
        case StepDone():
            found, data = None, _result(payload)
        case TaskProcessed():
            found = payload.outcome.error
            data = {"task": payload.task, "status": payload.outcome.status.value, "result": payload.outcome.result}
        case StepFailed() | IterationFailed():
            found, data = payload.error, {"error": payload.error.readable()}
        case StepDenied() | LoopDone():
            found, data = None, msgspec.to_builtins(payload)
        case IterationDone():
            found, data = None, {"index": payload.index, **_result(payload)}
        case waits.StepTimeout():
            found, data = None, {"action": payload.action, "alternative": payload.alternative}
        case Emitted():
            return OwnEvent(name=payload.emitted, step=event.step or "", data=payload.data)
        case (
            waits.TimerFired()
            | waits.TimerCancelled()
            | waits.MessageReceived()
            | waits.MessageTimeout()
            | waits.SignalReceived()
            | waits.HumanCreated()
            | waits.HumanClaimed()
            | waits.HumanReleased()
            | waits.HumanCommented()
            | waits.HumanOverdue()
            | waits.HumanEscalated()
            | waits.TaskCompleted()
        ) if is_told(payload):
            found, data = None, event_data(payload)
        case _:
            return None
    return OwnEvent(name=event.event_type, step=event.step or "", data=data, error=found)


def hears(run_id: str, event: Event) -> bool:
    """Whether a step run that listens is told of this event: of those of others, and of what time does to its own
    human task (HUM-04)."""
    return run_id != event.step_run_id or isinstance(event.payload, waits.HumanOverdue | waits.HumanEscalated)


def _result(payload: StepDone | IterationDone) -> dict[str, object]:
    """The payload of a result; one that is stored elsewhere by its reference."""
    result = payload.result
    if result.ref is not None:
        return {"ref": msgspec.to_builtins(result.ref)}
    value = result.result
    return {"result": value["data"] if result.wrapped and isinstance(value, dict) and "data" in value else value}
