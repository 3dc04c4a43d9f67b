"""Payloads as JSON text and back, by event type; a version this program does not know is refused, never guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from noetl.base.errors import BackendError
from noetl.events.control import Emitted
from noetl.events.envelope import SCHEMA
from noetl.events.events import Payload

_encoder = msgspec.json.Encoder()
_classes: dict[str, Any] = {cls.event_type: cls for cls in get_args(Payload)}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


# The method itself: a function around it would be called eleven times a step.
encode_payload: Callable[[Payload], bytes] = _encoder.encode


def decode_payload(event_type: str, body: bytes | str, schema: int = SCHEMA) -> Payload:
    """The payload that `encode_payload` wrote. BackendError for a type or version newer than this program."""
    if schema > SCHEMA:
        raise _unknown(event_type, schema)
    if event_type not in _classes:
        return _authored(event_type, body, schema)
    decoder = _decoders.get(event_type)
    if decoder is None:
        decoder = _decoders.setdefault(event_type, msgspec.json.Decoder(_classes[event_type]))
    payload: Payload = decoder.decode(body)
    return payload


def _authored(event_type: str, body: bytes | str, schema: int) -> Emitted:
    """An author's own event says its name itself; whatever else has an unknown name is newer than this program."""
    try:
        emitted = msgspec.json.decode(body, type=Emitted)
    except msgspec.ValidationError:
        raise _unknown(event_type, schema) from None
    if emitted.emitted != event_type:
        raise _unknown(event_type, schema)
    return emitted


def _unknown(event_type: str, schema: int) -> BackendError:
    return BackendError(f'event "{event_type}" of version {schema} was written by a newer program')
