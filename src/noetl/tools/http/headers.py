"""Headers, both ways: what an author may send, and how those of a response are read.

Control characters in a name or a value would let data write further headers, so they are refused (reliability.md §2.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from noetl.templates.values import Headers
from noetl.tools.http.request_options import Wrong

# A token of RFC 9110.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS = frozenset(  # what the connection says itself; a copied one would only contradict it
    {"content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
)

Line = tuple[bytes, bytes]


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
