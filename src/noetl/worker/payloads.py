"""Payloads: what is too large for an event is stored first and travels as a reference (RES-01, RES-03, RES-04)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.net.net import Net
from noetl.records.outcomes import Error, Outcome
from noetl.records.references import Reference

MAX_PAYLOAD_BYTES = 65_536  # O-33
_CUT = " … (cut)"


def max_payload_bytes(net: Net) -> int:
    """The inline limit of a net's results; nothing at all where references come first (RES-04)."""
    if net.executor.reference_first:
        return -1
    return int(net.executor.limits.get("max_payload_bytes", MAX_PAYLOAD_BYTES))


def fitted(outcome: Outcome, limit_bytes: int, keep: Callable[[Any], Reference]) -> Outcome:
    """The outcome as it may be recorded: a large result by reference, a large error shortened."""
    if outcome.ok:
        if outcome.result is None or len(msgspec.json.encode(outcome.result)) <= limit_bytes:
            return outcome
        return msgspec.structs.replace(outcome, result=None, ref=keep(outcome.result))
    assert outcome.error is not None
    room = max(limit_bytes, 1_000)
    if len(msgspec.json.encode(outcome.error)) <= room:
        return outcome
    return msgspec.structs.replace(outcome, error=_shortened(outcome.error, room))


def _shortened(error: Error, room: int) -> Error:
    message = error.message[: room // 4] + _CUT if len(error.message) > room // 4 else error.message
    return msgspec.structs.replace(error, message=message, details=None, cause=None)
