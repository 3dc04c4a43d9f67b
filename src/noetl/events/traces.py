"""Traces: the ids of spans, and the header by which one program tells another which span it is in (W3C trace context).

Ids follow from those of the log, so that who runs a task and who tells of it later name the same span.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

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
    """A trace id of the log as OpenTelemetry has it: those we make are 32 hex digits already."""
    try:
        found = int(trace_id, 16) if len(trace_id) == 32 else 0
    except ValueError:
        found = 0
    return found or int.from_bytes(hashlib.sha256(trace_id.encode()).digest()[:16], "big")
