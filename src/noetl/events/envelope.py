"""Events in their envelope: which execution, in which order, by whom, about what, because of which (EVT-02).

`entity`, `entity_id` and `status` follow from the type and the payload, so they are told, never stored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.events.control import Emitted
from noetl.events.events import Payload
from noetl.events.executions import PlaybookProcessed, WorkflowFinished
from noetl.events.large_values import Load, put_back
from noetl.events.payloads import EventSource
from noetl.events.side_runs import AsyncDone
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.taxonomy import TAXONOMY, type_of
from noetl.events.tokens import NextSelected, TokenDropped
from noetl.events.v2_case_positions import RetryProcessed, SinkProcessed

SCHEMA = 1  # version of the payloads; raised when one changes its meaning


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact."""

    execution_id: str
    seq: int  # gapless per execution, and the only order
    # Follows from the position, or from the cause of what others know by this name: a decision that is made again gives
    # the same id, and the store keeps one (docs/decisions/0018).
    event_id: str
    ts: float  # by the clock of who saw it, so a worker's may be out of order
    source: EventSource
    payload: Payload
    trace_id: str
    parent_id: str | None = None  # the event that caused this one
    step: str | None = None
    step_run_id: str | None = None
    task_run_id: str | None = None
    on_behalf: bool = False  # the server writes what a worker would have: no worker was needed, or it was lost
    schema: int = SCHEMA

    @property
    def event_type(self) -> str:
        payload = self.payload
        if type(payload) is Emitted and payload.emitted not in TAXONOMY:  # no author speaks for the system
            return payload.emitted
        return payload.event_type


def status_of(payload: Payload) -> str:
    """The envelope's status: in_progress, success or error."""
    match payload:
        case TaskProcessed():
            return payload.outcome.status.value
        case RetryProcessed() | SinkProcessed():
            return payload.status.value
        case WorkflowFinished() | PlaybookProcessed():
            return "success" if payload.status == "completed" else "error"
        case NextSelected() | TokenDropped() | AsyncDone():
            return "error" if payload.error else "success"
        case _:
            return type_of(payload.event_type).status or "success"


def entity_id_of(event: Event) -> str:
    """What the event is about: a task run, a token, a step run, else the execution."""
    payload = event.payload
    if isinstance(payload, TaskStarted | TaskProcessed):
        return payload.task_run_id
    token_id = getattr(payload, "token_id", None)
    return token_id or event.step_run_id or event.execution_id


def with_stored_values(event: Event, load: Load) -> Event:
    """The event with the values that are stored apart from it (RES-06)."""
    payload = put_back(event.payload, load)
    return event if payload is event.payload else msgspec.structs.replace(event, payload=payload)


def readable(event: Event) -> dict[str, Any]:
    """The whole envelope as plain data, with both spellings of EVT-02, for people and other programs."""
    payload = msgspec.to_builtins(event.payload)
    if isinstance(event.payload, TaskProcessed):  # OUT-01 counts it among what `meta` has; it follows from its times
        payload["outcome"]["meta"]["duration_ms"] = event.payload.outcome.meta.duration_ms
    ts = rfc3339(event.ts)
    return {
        "event_id": event.event_id,
        "execution_id": event.execution_id,
        "seq": event.seq,
        "event_type": event.event_type,
        "name": event.event_type,
        "ts": ts,
        "timestamp": ts,
        "source": event.source.value,
        "entity": type_of(event.event_type).entity,
        "entity_id": entity_id_of(event),
        "status": status_of(event.payload),
        "step": event.step,
        "step_run_id": event.step_run_id,
        "task_run_id": event.task_run_id,
        "trace_id": event.trace_id,
        "parent_id": event.parent_id,
        "on_behalf": event.on_behalf,
        "schema": event.schema,
        "payload": payload,
        "data": payload,
    }
