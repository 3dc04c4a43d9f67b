"""Calls: from a task's rendered inputs to the request that is sent. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote, urlencode

import httpx2
import msgspec

from noetl.tools.http.message import Line, has, lines_of, value_of
from noetl.tools.http.problems import clipped, public_url
from noetl.tools.http.request_options import Attached, Wrong, basic

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SCHEMES = ("http", "https")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # nothing happens twice when they are repeated
# As long as servers commonly allow for an Idempotency-Key.
_LONGEST_KEY = 255


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, ready to be sent. `secret_params` are not to be shown."""

    method: str
    url: httpx2.URL
    lines: tuple[Line, ...]
    content: bytes | None = None
    secret_params: frozenset[str] = frozenset()

    @property
    def shown_url(self) -> str:
        return public_url(self.url, self.secret_params)

    def __str__(self) -> str:
        return f"{self.method} {clipped(self.shown_url)}"


def call_of(
    inputs: Mapping[str, Any], credential: Attached, idempotency_key: str, traceparent: str | None = None
) -> HttpRequest:
    """The request of a task run. Wrong says what cannot be sent."""
    method, url = method_of(inputs), url_of(inputs.get("url"))
    lines = lines_of(inputs.get("headers"))
    body = body_of(inputs, value_of(lines, "content-type"))
    defaults: dict[str, str | None] = {
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": _user_agent(),
        "Content-Type": body.media_type,
        "traceparent": traceparent,
        **credential.headers,
    }
    if url.userinfo:
        defaults.setdefault("Authorization", basic(unquote(url.username), unquote(url.password)))
    if method not in _SAFE:
        defaults["Idempotency-Key"] = key_line(idempotency_key)
    for name, value in defaults.items():
        if value is not None and not has(lines, name):  # an author's own header wins (reliability.md §3.4)
            lines += lines_of({name: value})
    return HttpRequest(
        method=method,
        url=_with_query(url, inputs, credential),
        lines=tuple(lines),
        content=body.content,
        secret_params=frozenset(credential.params),
    )


def method_of(inputs: Mapping[str, Any]) -> str:
    written = str(inputs.get("method") or "GET").strip()
    method = written.upper()
    if method not in METHODS:
        raise Wrong(f'method "{clipped(written, 40)}" is not known: write {", ".join(METHODS)}')
    return method


def url_of(written: Any) -> httpx2.URL:
    """The URL of a request: http or https, with a host."""
    if not isinstance(written, str) or not written.strip():
        raise Wrong("it has no url")
    try:
        url = httpx2.URL(written.strip())
    except (httpx2.InvalidURL, UnicodeError) as problem:
        raise Wrong(f"its url is not one: {str(problem).partition(':')[0]}") from None  # what follows is a part of it
    return checked(url)


def checked(url: httpx2.URL) -> httpx2.URL:
    if not url.scheme:
        raise Wrong("its url does not begin with http:// or https://")
    if url.scheme not in SCHEMES:
        raise Wrong(f'its url begins with "{clipped(url.scheme, 40)}:", and only http:// and https:// are sent')
    if not url.host:
        raise Wrong("its url has no host")
    if url.port is not None and not 0 < url.port < 65_536:
        # which one is not told: in http://user:12345678/9@host it is a part of the password
        raise Wrong("its url has a port that there is none of: they go from 1 to 65535")
    return url


def key_line(key: str) -> str:
    """An idempotency key as a header can carry it: the same text for the same key."""
    line = quote(key, safe="/#:@!$&'()*+,;=", errors="surrogatepass")
    return line if len(line) <= _LONGEST_KEY else sha256(line.encode()).hexdigest()


def _with_query(url: httpx2.URL, inputs: Mapping[str, Any], credential: Attached) -> httpx2.URL:
    """The URL with `params` after its own query, without a user name, a password or a fragment."""
    query = url.query.decode("ascii")
    for what, params in (
        ("params", inputs.get("params")),
        ("data.query", query_of(inputs.get("data"))),
        ("auth", credential.params),
    ):
        if params:
            query = joined(query, encoded(params, what))
    if url.userinfo:
        url = url.copy_with(username="", password="")
    changes: dict[str, Any] = {"fragment": None} if url.fragment else {}
    if query:
        changes["query"] = query.encode("ascii")
    return url.copy_with(**changes) if changes else url


@lru_cache(maxsize=1)
def _user_agent() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"noetl/{version('noetl-engine')}"
    except PackageNotFoundError:
        return "noetl"


# Bodies: the ways an author may write one, as bytes and their media type (TOOL-02, design.md §5).
# Queries: values by name as `a=1&b=2`, for query strings and for forms.
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
