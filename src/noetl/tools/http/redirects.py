"""Redirects: what is asked next when a response points elsewhere (O-12).

Each hop is a new call through the same guard. At another origin nothing that may be a credential is sent along:
only headers known to be harmless are (reliability.md §2.5).
"""

from __future__ import annotations

import httpx2
import msgspec

from noetl.tools.http.bad_request import Wrong
from noetl.tools.http.calls import HttpRequest, checked
from noetl.tools.http.problems import clipped

MAX_REDIRECTS = 5
_STATUSES = frozenset({301, 302, 303, 307, 308})
_OF_A_BODY = (b"content-type", b"content-encoding", b"content-language", b"idempotency-key")
_HARMLESS = frozenset(
    {
        *(b"accept", b"accept-charset", b"accept-encoding", b"accept-language", b"user-agent", b"range"),
        *(b"cache-control", b"idempotency-key", b"prefer", b"traceparent", b"tracestate"),
        *(b"content-type", b"content-encoding", b"content-language"),
    }
)


def next_call(call: HttpRequest, status: int, location: str | None) -> HttpRequest | None:
    """The call that a response asks for; None when it asks for none."""
    if status not in _STATUSES or not location:
        return None
    url = _target(call.url, location)
    lines = call.lines
    if not _same_party(call.url, url):
        lines = tuple(line for line in lines if line[0].lower() in _HARMLESS)
    method, content = call.method, call.content
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, content = "GET", None
        lines = tuple(line for line in lines if line[0].lower() not in _OF_A_BODY)
    return msgspec.structs.replace(call, method=method, url=url, lines=lines, content=content)


def _target(base: httpx2.URL, location: str) -> httpx2.URL:
    try:
        url = base.join(location)
    except (httpx2.InvalidURL, UnicodeError):
        raise Wrong(f'it was redirected to "{clipped(location)}", which is not a URL') from None
    if url.userinfo:
        url = url.copy_with(username="", password="")
    return checked(url.copy_with(fragment=None) if url.fragment else url)


def _same_party(a: httpx2.URL, b: httpx2.URL) -> bool:
    """The same origin, or the same host on its way from http to https."""
    if a.origin == b.origin:
        return True
    return a.host == b.host and (a.scheme, b.scheme) == ("http", "https") and (_port(a), _port(b)) == (80, 443)


def _port(url: httpx2.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
