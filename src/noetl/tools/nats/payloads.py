"""Payloads: values as the bytes of a message, and bytes as values. Text is itself, everything else is JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError

FORMATS = ("auto", "json", "text", "base64")
MAX_BYTES = 64 << 20
_HEADER = re.compile(r"[!-9;-~]+\Z")  # printable, no colon


def encoded(data: Any) -> bytes:
    """The bytes that are sent for a value."""
    if data is None:
        return b""
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else msgspec.json.encode(data)


def decoded(body: bytes, wanted: Any) -> Any:
    """The value of bytes that came. `auto` reads JSON objects and lists, other text as it is, and the rest as base64;
    a number or a word is text there, since nobody said that it is more."""
    match wanted or "auto":
        case "json":
            try:
                return msgspec.json.decode(body) if body else None
            except (msgspec.DecodeError, RecursionError) as problem:
                raise ToolError("nats.error", f"the value is not JSON: {problem}") from None
        case "text":
            return body.decode("utf-8", "replace")
        case "base64":
            return base64.b64encode(body).decode()
        case "auto":
            return _by_shape(body)
        case _:
            raise ToolError("nats.input", f'format "{wanted}" is not known: write {", ".join(FORMATS)}')


def _by_shape(body: bytes) -> Any:
    if body[:1] in (b"{", b"["):
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            pass
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(body).decode()


def headers_of(written: Any) -> dict[str, str]:
    """Headers of a message. Control characters in them would be lines of the protocol."""
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ToolError("nats.input", f"headers must be a mapping, not {type(written).__name__}")
    headers = {str(name): value if isinstance(value, str) else str(value) for name, value in written.items()}
    for name, value in headers.items():
        if not _HEADER.match(name) or any(ord(sign) < 32 or ord(sign) == 127 for sign in value):
            raise ToolError("nats.input", f'the header "{name!r}" holds a character that no header can')
    return headers
