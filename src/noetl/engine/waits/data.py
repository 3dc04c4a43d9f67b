"""What the events of waiting tell: `event.data`, for the step that waited and for everybody who listens (ROUTE-09)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.waits import (
    MessageReceived,
    MessageTimeout,
    SignalReceived,
    TaskCompleted,
    TimerCancelled,
    TimerFired,
    Waiting,
)


def event_data(payload: Waiting) -> Any:
    """The data of one event. A message's is its payload (MSG-01), so that rules read what was sent."""
    match payload:
        case MessageReceived():
            return payload.payload
        case SignalReceived():
            return {"name": payload.name, "data": payload.data, "signal_id": payload.signal_id}
        case TimerFired():
            return {"timer_id": payload.timer_id}
        case TimerCancelled():
            return {"timer_id": payload.timer_id, "actor": payload.actor}
        case MessageTimeout():
            return {"name": payload.name}
        case TaskCompleted():
            return {"task_id": payload.task_id, "actor": payload.actor, "result": payload.result}
        case _:
            return msgspec.to_builtins(payload)


def is_told(payload: Waiting) -> bool:
    """Whether rules that listen hear of it: not of a timer that is only withdrawn, nor twice of one signal."""
    match payload:
        case TimerCancelled():
            return not payload.withdrawn
        case SignalReceived():
            return not payload.again
        case _:
            return True
