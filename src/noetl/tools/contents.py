"""Contents: values as bytes, and bytes as values. Text is itself, everything else is JSON."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from noetl.base.errors import ToolError

FORMATS = ("auto", "json", "text", "base64")
# As much as one result may have (MAX_RESULT_BYTES): what is decoded becomes one.
MAX_BYTES = 64 << 20


def encoded(data: Any, wanted: Any = None, *, kind: str) -> bytes:
    """The bytes of a value; with the format `base64` those that the text stands for. ToolError `kind.input`."""
    if wanted == "base64":
        try:
            return base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError):
            raise ToolError(f"{kind}.input", "data is not base64, which format says it is") from None
    if data is None:
        return b""
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else msgspec.json.encode(data)


def decoded(body: bytes, wanted: Any, *, kind: str) -> Any:
    """The value of bytes. `auto` reads JSON objects and lists, other text as it is, and the rest as base64; a number
    or a word stays text, since nothing says that it is more. ToolError `kind.error` or `kind.input`."""
    match wanted or "auto":
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
            return _by_shape(body)
        case _:
            raise ToolError(f"{kind}.input", f'format "{wanted}" is not known: write {", ".join(FORMATS)}')


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
