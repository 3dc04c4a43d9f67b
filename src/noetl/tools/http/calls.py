"""Calls: from a task's rendered inputs to the request that is sent. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote

import httpx2
import msgspec

from noetl.tools.http.bad_request import Wrong
from noetl.tools.http.bodies import body_of, query_of
from noetl.tools.http.credentials import Attached, basic
from noetl.tools.http.headers import Line, has, lines_of, value_of
from noetl.tools.http.problems import clipped, public_url
from noetl.tools.http.queries import encoded, joined

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
