"""Redirects (O-12): the request that the answer to another one asks for.

Each hop is a new request through the same guard. Another origin receives only headers known to be harmless, so that no
credential reaches it (reliability.md §2.5), and neither a body nor a URL with a secret.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import msgspec

from noetl.base.errors import ToolError
from noetl.tools.http import calls
from noetl.tools.http.message import Line
from noetl.tools.http.request_options import InvalidRequest

MAX_REDIRECTS = 5
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_BODY_HEADERS = (b"content-type", b"content-encoding", b"content-language", b"idempotency-key")
_HARMLESS_HEADERS = frozenset(
    {
        *(b"accept", b"accept-charset", b"accept-encoding", b"accept-language", b"user-agent", b"range"),
        *(b"cache-control", b"idempotency-key", b"prefer", b"traceparent", b"tracestate"),
        *(b"content-type", b"content-encoding", b"content-language"),
    }
)


def next_request(
    call: calls.HttpRequest, status: int, location: str | None, mask: Callable[[str], str]
) -> calls.HttpRequest | None:
    """The request that a redirect asks for; None if the response is no redirect. Raises ToolError `http.transport` if
    it would send a secret to another origin."""
    if status not in _REDIRECT_STATUSES or not location:
        return None
    url = _target(call.url, location)
    lines, method, content = call.lines, call.method, call.content
    # As browsers do, and RFC 9110 allows: 303 always becomes a GET, 301 and 302 only for a POST.
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, content = "GET", None
        lines = tuple(line for line in lines if line[0].lower() not in _BODY_HEADERS)
    if not _is_same_site(call.url, url):
        _check_target(call, url, content, mask)
        lines = tuple(line for line in lines if _is_harmless(line, mask))
    return msgspec.structs.replace(call, method=method, url=url, lines=lines, content=content)


def _is_harmless(line: Line, mask: Callable[[str], str]) -> bool:
    name, value = line
    return name.lower() in _HARMLESS_HEADERS and not _holds_secret(value, mask)


def _check_target(call: calls.HttpRequest, url: httpx2.URL, content: bytes | None, mask: Callable[[str], str]) -> None:
    """Refuse to send a secret to another origin in the body, or in a query that the server has passed on."""
    # A credential of `auth` may be written in the playbook itself; such a value is not known to the mask.
    passed_on = {*call.url.params.multi_items()} & {*url.params.multi_items()}
    if any(name in call.secret_params for name, _ in passed_on) or _holds_secret(str(url).encode(), mask):
        what = "URL"
    elif content is not None and _holds_secret(content, mask):
        what = "body"
    else:
        return
    raise ToolError(
        "http.transport",
        f"{call} was redirected to another origin, {_origin(url)}, and the {what} holds a secret, which is not sent "
        "there: write the address that is meant as url",
        code="redirected_secret",
    )


def _holds_secret(sent: bytes, mask: Callable[[str], str]) -> bool:
    # Latin-1 finds what was not written in UTF-8.
    return any(mask(text) != text for text in (sent.decode("utf-8", "replace"), sent.decode("latin-1")))


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _target(base: httpx2.URL, location: str) -> httpx2.URL:
    try:
        url = base.join(location)
    except (httpx2.InvalidURL, UnicodeError):
        raise InvalidRequest(f'it was redirected to "{calls.clipped(location)}", which is not a URL') from None
    if url.userinfo:
        url = url.copy_with(username="", password="")
    return calls.checked_url(url.copy_with(fragment=None) if url.fragment else url)


def _is_same_site(a: httpx2.URL, b: httpx2.URL) -> bool:
    """The same origin, or an upgrade of the same host from http to https."""
    if a.origin == b.origin:
        return True
    return a.host == b.host and (a.scheme, b.scheme) == ("http", "https") and (_port(a), _port(b)) == (80, 443)


def _port(url: httpx2.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
