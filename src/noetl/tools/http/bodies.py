"""Bodies: the ways an author may write one, as bytes and their media type (TOOL-02, design.md §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.tools.http.bad_request import Wrong
from noetl.tools.http.queries import encoded

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
TEXT = "text/plain; charset=utf-8"

_SPELLINGS = ("json", "body", "form", "data")
_QUERY_AND_BODY = frozenset({"query", "body"})


class RequestBody(msgspec.Struct, frozen=True):
    """What is sent. `media_type` is used unless the author's headers say another."""

    content: bytes | None = None
    media_type: str | None = None


def body_of(inputs: Mapping[str, Any], content_type: str) -> RequestBody:
    """The body of a task's inputs; `content_type` is the author's header, if there is one."""
    given = {spelling: inputs[spelling] for spelling in _SPELLINGS if inputs.get(spelling) is not None}
    if query_of(given.get("data")) is not None:
        given["data"] = given["data"].get("body")
    given = {spelling: value for spelling, value in given.items() if value is not None}
    if len(given) > 1:
        raise Wrong(f"it has several bodies ({', '.join(given)}): keep one of them")
    for spelling, value in given.items():
        match spelling:
            case "json":
                return _json(value)
            case "form":
                return RequestBody(encoded(value, "form").encode(), FORM)
            case _:
                return _any(value, content_type)
    return RequestBody()


def query_of(data: Any) -> Mapping[str, Any] | None:
    """The query of `data: {query, body}`; None when `data` is the body itself.

    A `query` that is text is a body: a GraphQL document is sent so.
    """
    if not isinstance(data, Mapping) or not data or not data.keys() <= _QUERY_AND_BODY:
        return None
    query = data.get("query")
    if query is None:
        return {}
    return query if isinstance(query, Mapping) else None


def _any(value: Any, content_type: str) -> RequestBody:
    """Text is sent as it is, anything else as JSON, or as a form where the author's header says so."""
    if isinstance(value, str):
        content = value.encode("utf-8", "surrogatepass")
        return RequestBody(content, JSON if _is_json(content) else TEXT)
    if isinstance(value, Mapping) and content_type.lower().startswith(FORM):
        return RequestBody(encoded(value, "the body").encode(), FORM)
    return _json(value)


def _json(value: Any) -> RequestBody:
    try:
        return RequestBody(msgspec.json.encode(value), JSON)
    except (TypeError, ValueError, RecursionError) as problem:
        raise Wrong(f"its body cannot be written as JSON: {problem}") from None


def _is_json(content: bytes) -> bool:
    """Whether text is a JSON document (`{{ … | tojson }}`): servers refuse one that is called plain text."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return False
    return True
