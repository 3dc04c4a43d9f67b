"""Events in their envelope: which execution, in which order, its author, its subject and its cause (EVT-02). Also the
ids of the trace spans of events (W3C trace context).

`entity`, `entity_id` and `status` follow from the type and the payload, so they are computed, never stored. Payloads
are JSON text, by event type; a version this program does not know is refused, never guessed. Ids of spans follow from
those of the log, so that a running task and a later export name the same span.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import BackendError
from noetl.events.control import Emitted
from noetl.events.events import TAXONOMY, Payload, type_of
from noetl.events.executions import PlaybookProcessed, WorkflowFinished
from noetl.events.large_values import Load, put_back
from noetl.events.payloads import EventSource
from noetl.events.side_runs import AsyncDone
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.tokens import NextSelected, TokenDropped
from noetl.events.v2_case_positions import RetryProcessed, SinkProcessed

SCHEMA = 1  # version of the payloads; raised when one changes its meaning


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact."""

    execution_id: str
    seq: int  # gapless per execution, and the only order
    # Derived from the position, or from the cause if other records refer to this id: a repeated decision gives the same
    # id, and the store keeps one event (docs/decisions/0018).
    event_id: str
    ts: float  # by the clock of its author, so a worker's may be out of order
    source: EventSource
    payload: Payload
    trace_id: str
    parent_id: str | None = None  # the event that caused this one
    step: str | None = None
    step_run_id: str | None = None
    task_run_id: str | None = None
    on_behalf: bool = False  # the server wrote the event in place of a worker: none was needed, or it was lost
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
    """The subject of the event: a task run, a token, a step run, else the execution."""
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
    if isinstance(event.payload, TaskProcessed):  # OUT-01 lists it under `meta`; it follows from the times there
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


_encoder = msgspec.json.Encoder()
_classes: dict[str, Any] = {cls.event_type: cls for cls in get_args(Payload)}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


# The method itself: a function around it would cost eleven more calls per step.
encode_payload: Callable[[Payload], bytes] = _encoder.encode


def decode_payload(event_type: str, body: bytes | str, schema: int = SCHEMA) -> Payload:
    """The payload that `encode_payload` wrote. BackendError for a type or version newer than this program."""
    # Refused instead of guessed: a changed meaning has the same fields.
    if schema > SCHEMA:
        raise _unknown(event_type, schema)
    if event_type not in _classes:
        return _authored(event_type, body, schema)
    decoder = _decoders.get(event_type)
    if decoder is None:
        # Made with the first event of its type: a command reads only a few types, and must start fast.
        decoder = _decoders.setdefault(event_type, msgspec.json.Decoder(_classes[event_type]))
    payload: Payload = decoder.decode(body)
    return payload


def _authored(event_type: str, body: bytes | str, schema: int) -> Emitted:
    """An authored event has its name in the payload; any other unknown name belongs to a newer version."""
    try:
        emitted = msgspec.json.decode(body, type=Emitted)
    except msgspec.ValidationError:
        raise _unknown(event_type, schema) from None
    # An event of an author is stored under its own name. Any other unknown name belongs to a newer program.
    if emitted.emitted != event_type:
        raise _unknown(event_type, schema)
    return emitted


def _unknown(event_type: str, schema: int) -> BackendError:
    return BackendError(f'event "{event_type}" of version {schema} was written by a newer program')


_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


class TraceParent(msgspec.Struct, frozen=True, kw_only=True):
    """The span of the caller of a request."""

    trace_id: str
    span_id: int


def caller_of(traceparent: str | None) -> TraceParent | None:
    """The span of the caller, from a valid W3C header; any other header is ignored, as the standard requires."""
    found = _PARENT.fullmatch(traceparent.strip().lower()) if traceparent and len(traceparent) < 200 else None
    # Version ff and ids of zeros alone are invalid by the standard.
    if found is None or found[1] == "ff" or not (int(found[2], 16) and int(found[3], 16)):
        return None
    return TraceParent(trace_id=found[2], span_id=int(found[3], 16))


def traceparent_of(trace_id: str, name: str) -> str:
    """The header of the span that belongs to `name`, a task run."""
    return f"00-{trace_id_of(trace_id):032x}-{span_id_of(name):016x}-01"


def span_id_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") or 1


def trace_id_of(trace_id: str) -> int:
    """A trace id of the log in the form of OpenTelemetry: the ids that we make are 32 hex digits already."""
    try:
        found = int(trace_id, 16) if len(trace_id) == 32 else 0
    except ValueError:
        found = 0
    return found or int.from_bytes(hashlib.sha256(trace_id.encode()).digest()[:16], "big")
