"""Contents: the bytes of a body as data: JSON parsed, text decoded, anything else as base64 (TOOL-02).

What an author reads must not depend on chance: a media type known to be binary is base64 always, also when its bytes
happen to be text.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from noetl.base.errors import ToolError

# Small JSON values take some fifty times their text in memory.
MAX_VALUES = 5_000_000
MAX_DEPTH = 100
_BOM = b"\xef\xbb\xbf"
_UNREADABLE: Any = object()
_BINARY_TYPES = ("image/", "audio/", "video/", "font/", "model/")
_BINARY = frozenset(
    f"application/{name}"
    for name in (
        *("zip", "gzip", "x-gzip", "x-tar", "x-bzip2", "x-7z-compressed", "zstd", "pdf", "wasm", "protobuf"),
        *("x-protobuf", "cbor", "msgpack", "vnd.apache.parquet", "vnd.apache.arrow.stream", "vnd.ms-excel"),
        "vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    )
)


class Content(msgspec.Struct, frozen=True):
    """A body as data; `media_type` is noted where the data is base64."""

    data: Any = None
    media_type: str | None = None


def content_of(body: bytes, content_type: str, what: str) -> Content:
    """The data of a body. ToolError when it is JSON too large or too deep to be handled."""
    media_type, charset = _described(content_type)
    if not body:
        return Content()
    if is_json(media_type) or (body.lstrip(b" \t\r\n" + _BOM)[:1] in (b"{", b"[") and not is_binary(media_type)):
        data = parsed(body, charset, what)
        if data is not _UNREADABLE:
            return Content(data)
    if not is_binary(media_type) and (text := _text(body, media_type, charset)) is not None:
        return Content(text)
    return Content(b64encode(body).decode(), media_type or "application/octet-stream")


def is_json(media_type: str) -> bool:
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")


def is_binary(media_type: str) -> bool:
    if media_type.endswith("+xml"):
        return False
    return media_type.startswith(_BINARY_TYPES) or media_type in _BINARY


def parsed(body: bytes, charset: str, what: str) -> Any:
    """A JSON document, or _UNREADABLE. Bounded before it is parsed, since small text can make many values."""
    if charset.lower() not in ("", "utf-8", "utf8", "ascii", "us-ascii"):
        text = _decoded(body, charset)
        body = text.encode("utf-8", "replace") if text is not None else body
    body = body.removeprefix(_BOM)
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > MAX_VALUES:
        raise _too_large(what, f"more than {MAX_VALUES:,} values")
    try:
        data = msgspec.json.decode(body)
    except RecursionError:
        raise _too_large(what, f"more than {MAX_DEPTH} levels") from None
    except ValueError:
        return _UNREADABLE
    if values > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise _too_large(what, f"more than {MAX_DEPTH} levels")
    return data


def _depth(data: Any) -> int:
    """How deep lists and mappings are nested; stops counting past the limit."""
    depth, level = 0, [data] if isinstance(data, dict | list) else []
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            child
            for one in level
            for child in (one.values() if type(one) is dict else one)
            if type(child) is dict or type(child) is list
        ]
    return depth


def _text(body: bytes, media_type: str, charset: str) -> str | None:
    """The body as text, or None when it is none."""
    text = _decoded(body.removeprefix(_BOM), charset or "utf-8")
    if text is None and media_type.startswith("text/"):
        text = body.decode("latin-1")  # what HTTP took for granted before UTF-8
    return None if text is not None and "\x00" in text else text


def _decoded(body: bytes, charset: str) -> str | None:
    try:
        return body.decode(charset)
    except (LookupError, ValueError):
        return None


def _described(content_type: str) -> tuple[str, str]:
    """Media type and charset of a Content-Type header."""
    media_type, *parameters = content_type.split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return media_type.strip().lower(), value.strip().strip("\"'")
    return media_type.strip().lower(), ""


def _too_large(what: str, size: str) -> ToolError:
    return ToolError("result.too_large", f"{what} gave JSON with {size}")
