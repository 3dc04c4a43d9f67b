"""Contents of messages and files: values to bytes and back. Text stays text, everything else is JSON."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from noetl.base.errors import ToolError

FORMATS = ("auto", "json", "text", "base64")
# The limit of one result (MAX_RESULT_BYTES), since a decoded value becomes one.
MAX_BYTES = 64 << 20


def encode(data: Any, content_format: Any = None, *, kind: str) -> bytes:
    """The bytes of a value; with the format `base64` the bytes that the text encodes. Raises ToolError `KIND.input`."""
    if content_format == "base64":
        try:
            return base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError):
            raise ToolError(f"{kind}.input", "format is base64, and data is not base64") from None
    if data is None:
        return b""
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else msgspec.json.encode(data)


def decode(body: bytes, content_format: Any, *, kind: str) -> Any:
    """The value of bytes. `auto` decodes JSON objects and lists, keeps other text, and returns the rest as base64. A
    bare number or word stays text: it may be either. Raises ToolError `KIND.error` or `KIND.input`."""
    match content_format or "auto":
        case "json":
            try:
                return msgspec.json.decode(body) if body else None
            except (msgspec.DecodeError, RecursionError) as problem:
                raise ToolError(f"{kind}.error", f"the value is not JSON: {problem}") from None
        case "text":
            return body.decode("utf-8", "replace")
        case "base64":
            return base64.b64encode(body).decode()
        case "auto":
            return _auto_decoded(body)
        case _:
            raise ToolError(f"{kind}.input", f'format "{content_format}" is not known: write {", ".join(FORMATS)}')


def _auto_decoded(body: bytes) -> Any:
    if body[:1] in (b"{", b"["):
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            pass
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(body).decode()
