"""The parts of an HTTP message: headers both ways, and the bytes of a body as data."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.values import Headers
from noetl.tools.http.request_options import Wrong

# A token of RFC 9110.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS = frozenset(  # what the connection says itself; a copied one would only contradict it
    {"content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
)
Line = tuple[bytes, bytes]
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


# Headers, both ways: what an author may send, and how those of a response are read.
#
# Control characters in a name or a value would let data write further headers, so they are refused (reliability.md
# §2.5).


def lines_of(written: Any) -> list[Line]:
    """The header lines of a mapping. Null leaves one out, a list sends one several times."""
    if written is None:
        return []
    if not isinstance(written, Mapping):
        raise Wrong(f"headers must be a mapping of names to values, not {type(written).__name__}")
    return [line for name, value in written.items() for line in _lines(str(name), value)]


def _lines(name: str, value: Any) -> Iterator[Line]:
    if not _NAME.match(name):
        raise Wrong(f"{name!r} is not a header name")
    if name.lower() in _OURS:
        return
    for one in value if isinstance(value, list) else [value]:
        if one is not None:
            yield name.encode(), _value(name, one)


def _value(name: str, value: Any) -> bytes:
    if isinstance(value, Mapping | list):
        raise Wrong(f'header "{name}" must be text, not a {"mapping" if isinstance(value, Mapping) else "list"}')
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _CONTROL.search(text):  # the value itself may be a secret, and is not shown
        raise Wrong(f'header "{name}" has a line break or another control character in its value')
    text = text.strip(" \t")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def has(lines: Iterable[Line], name: str) -> bool:
    wanted = name.lower().encode()
    return any(one.lower() == wanted for one, _ in lines)


def value_of(lines: Iterable[Line], name: str) -> str:
    """The value of a header; empty when it is not there."""
    wanted = name.lower().encode()
    return next((value.decode("latin-1") for one, value in lines if one.lower() == wanted), "")


def read(lines: Iterable[Line]) -> Headers:
    """The headers of a response; one that came several times is joined with commas."""
    found = Headers()
    for raw_name, raw_value in lines:
        name, text = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


# Contents: the bytes of a body as data: JSON parsed, text decoded, anything else as base64 (TOOL-02).
#
# What an author reads must not depend on chance: a media type known to be binary is base64 always, also when its bytes
# happen to be text.


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
