"""Queries: values by name as `a=1&b=2`, for query strings and for forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from noetl.tools.http.bad_request import Wrong


def encoded(written: Any, what: str) -> str:
    """`written` as a query string. A list repeats its name, null leaves it out, a mapping is sent as JSON."""
    if not isinstance(written, Mapping):
        raise Wrong(f"{what} must be a mapping of names to values, not {type(written).__name__}")
    pairs = [(str(name), text) for name, value in written.items() for text in _texts(value)]
    return urlencode(pairs, quote_via=quote, errors="surrogatepass")


def _texts(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        match one:
            case None:
                continue
            case bool():
                yield "true" if one else "false"
            case dict() | list():
                yield msgspec.json.encode(one).decode()
            case _:
                yield str(one)


def joined(query: str, more: str) -> str:
    return f"{query}&{more}" if query and more else query or more
