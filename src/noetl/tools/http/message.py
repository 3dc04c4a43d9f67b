"""Parts of an HTTP message: headers of requests and responses, and bodies of responses as data."""

from __future__ import annotations

import codecs
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.values import Headers
from noetl.tools.http.request_options import InvalidRequest

# A token of RFC 9110.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Headers that the connection sets itself; a copied one would contradict it.
_CONNECTION_HEADERS = frozenset(
    {"content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
)
Line = tuple[bytes, bytes]
# A small JSON value takes some fifty times its text in memory.
MAX_VALUES = 5_000_000
MAX_DEPTH = 100
_BOM = b"\xef\xbb\xbf"
_UNREADABLE: Any = object()
# Codecs of host names, which no body has. Their time grows with the square of the body, and servers choose the charset.
_HOST_NAME_CODECS = frozenset({"idna", "punycode"})
_BINARY_TYPES = ("image/", "audio/", "video/", "font/", "model/")
_BINARY = frozenset(
    f"application/{name}"
    for name in (
        *("zip", "gzip", "x-gzip", "x-tar", "x-bzip2", "x-7z-compressed", "zstd", "pdf", "wasm", "protobuf"),
        *("x-protobuf", "cbor", "msgpack", "vnd.apache.parquet", "vnd.apache.arrow.stream", "vnd.ms-excel"),
        "vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    )
)


# Headers. Control characters in a name or a value are refused: data could add further headers with them
# (reliability.md §2.5).


def header_lines(written: Any) -> list[Line]:
    """The header lines of a mapping. Null leaves a header out, a list repeats it."""
    if written is None:
        return []
    if not isinstance(written, Mapping):
        raise InvalidRequest(f"headers must be a mapping of names to values, not {type(written).__name__}")
    return [line for name, value in written.items() for line in _lines(str(name), value)]


def _lines(name: str, value: Any) -> Iterator[Line]:
    if not _NAME.match(name):
        raise InvalidRequest(f"{name!r} is not a header name")
    if name.lower() in _CONNECTION_HEADERS:
        return
    for item in value if isinstance(value, list) else [value]:
        if item is not None:
            yield name.encode(), _value(name, item)


def _value(name: str, value: Any) -> bytes:
    if isinstance(value, Mapping | list):
        raise InvalidRequest(
            f'header "{name}" must be text, not a {"mapping" if isinstance(value, Mapping) else "list"}'
        )
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _CONTROL.search(text):  # the message does not show the value: it may be a secret
        raise InvalidRequest(f'header "{name}" has a line break or another control character in its value')
    text = text.strip(" \t")
    # Latin-1 is what HTTP defines; UTF-8 is what servers understand beyond it.
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def has_header(lines: Iterable[Line], name: str) -> bool:
    lower = name.lower().encode()
    return any(line_name.lower() == lower for line_name, _ in lines)


def header_value(lines: Iterable[Line], name: str) -> str:
    """The value of a header; empty if it is missing."""
    lower = name.lower().encode()
    return next((value.decode("latin-1") for line_name, value in lines if line_name.lower() == lower), "")


def response_headers(lines: Iterable[Line]) -> Headers:
    """The headers of a response; repeated ones are joined with commas."""
    headers = Headers()
    for raw_name, raw_value in lines:
        name, text = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


# Bodies of responses as data: JSON parsed, text decoded, anything else as base64 (TOOL-02).
#
# The form must not depend on chance: a media type known to be binary is always base64, even if its bytes happen to be
# text.


class Content(msgspec.Struct, frozen=True):
    """A body as data; `media_type` is set if the data is base64."""

    data: Any = None
    media_type: str | None = None


def content_of(body: bytes, content_type: str, what: str) -> Content:
    """The data of a body. Raises ToolError for JSON with too many values or levels."""
    media_type, charset = _type_and_charset(content_type)
    if not body:
        return Content()
    if is_json(media_type) or (body.lstrip(b" \t\r\n" + _BOM)[:1] in (b"{", b"[") and not is_binary(media_type)):
        data = parsed_json(body, charset, what)
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


def parsed_json(body: bytes, charset: str, what: str) -> Any:
    """The value of a JSON document, or _UNREADABLE. The values are counted before parsing: a small text can hold
    many."""
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
    # A document with fewer brackets cannot be that deep, so most are not walked.
    if values > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise _too_large(what, f"more than {MAX_DEPTH} levels")
    return data


def _depth(data: Any) -> int:
    """The nesting depth of lists and mappings; stops counting past the limit."""
    depth, level = 0, [data] if isinstance(data, dict | list) else []
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            child
            for value in level
            for child in (value.values() if type(value) is dict else value)
            if type(child) is dict or type(child) is list
        ]
    return depth


def _text(body: bytes, media_type: str, charset: str) -> str | None:
    """The body as text; None if it is binary."""
    text = _decoded(body.removeprefix(_BOM), charset or "utf-8")
    if text is None and media_type.startswith("text/"):
        text = body.decode("latin-1")  # the default of HTTP before UTF-8
    return None if text is not None and "\x00" in text else text


def _decoded(body: bytes, charset: str) -> str | None:
    try:
        return None if codecs.lookup(charset).name in _HOST_NAME_CODECS else body.decode(charset)
    except (LookupError, ValueError):
        return None


def _type_and_charset(content_type: str) -> tuple[str, str]:
    """Media type and charset of a Content-Type header."""
    media_type, *parameters = content_type.split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return media_type.strip().lower(), value.strip().strip("\"'")
    return media_type.strip().lower(), ""


def _too_large(what: str, size: str) -> ToolError:
    return ToolError("result.too_large", f"{what} gave JSON with {size}")
