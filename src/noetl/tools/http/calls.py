"""Requests: from the rendered inputs of a task to the request that is sent, and the errors of those that failed
(OUT-03, TOOL-03). Nothing is sent here.

A request without an answer is `http.transport`; `code` distinguishes the reasons. Messages show URLs without user name
and password.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote, urlencode

import httpcore2
import httpx2
import msgspec

from noetl.base.addresses.policy import BlockedError, UnresolvedError
from noetl.base.errors import ToolError
from noetl.tools.http.message import Line, has_header, header_lines, header_value
from noetl.tools.http.request_options import AttachedCredential, InvalidRequest, RequestTimeout, basic

_LONGEST_URL = 300
_USERINFO = re.compile(r"//[^/?#]*@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# The 4xx statuses that do not reject the request itself; all 5xx are retryable.
RETRYABLE_STATUSES = frozenset({408, 425, 429})


def public_url(url: httpx2.URL, secret_params: frozenset[str] = frozenset()) -> str:
    """A URL for results and messages: without credentials and fragment."""
    if url.userinfo:
        url = url.copy_with(username="", password="")
    if secret_params:
        params = [(name, value) for name, value in url.params.multi_items() if name not in secret_params]
        url = url.copy_with(params=params)
    return str(url.copy_with(fragment=None)) if url.fragment else str(url)


def request_label(method: Any, url: Any, mask: Callable[[str], str]) -> str:
    """Method and URL for messages, before the request has been checked."""
    shown = _USERINFO.sub("//", _CONTROL.sub(" ", mask(str(url or "a request"))), count=1)
    return f"{clipped(mask(str(method or 'GET')).upper(), 40)} {clipped(shown)}"


def clipped(text: str, longest: int = _LONGEST_URL) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def unsent(what: str, problem: str) -> ToolError:
    """The error of a request that was not sent, because it is invalid."""
    return ToolError("http.transport", f"{what} was not sent: {problem}", code="request")


def is_retryable(status: int) -> bool:
    """Whether another attempt may get another status (TOOL-03)."""
    return status in RETRYABLE_STATUSES or status >= 500


def error_outcome(what: str, problem: Exception, timeout: RequestTimeout) -> ToolError:
    """The error outcome of an exception of the HTTP library; `what` is the method and the URL."""
    match problem:
        case InvalidRequest() | httpcore2.LocalProtocolError():
            return unsent(what, str(problem))
        case httpcore2.TimeoutException():
            return ToolError(
                "timeout", f"{what} got no answer in time: {_exceeded_limit(problem, timeout)}", retryable=True
            )
        case BlockedError():
            return ToolError("http.transport", f"{what} is blocked: {problem.message}", code="blocked")
        case UnresolvedError():
            message = f"{what} could not be sent: the host was not found ({problem.message})"
            return ToolError("http.transport", message, retryable=True, code="dns")
        case httpcore2.ProxyError():
            message = f"{what} could not be sent: the proxy refused it ({problem})"
            return ToolError("http.transport", message, retryable=str(problem)[:1] == "5", code="proxy")
        case httpcore2.ConnectError():
            return _connect_error(what, problem)
        case httpx2.DecodingError():
            return ToolError("http.transport", f"{what} gave a body that cannot be decoded: {problem}", code="decoding")
        case _:
            message = f"{what} broke off: {_reason(problem)}"
            return ToolError("http.transport", message, retryable=True, code="disconnected")


def _connect_error(what: str, problem: Exception) -> ToolError:
    # The connection pool breaks the chain of causes; the original exception is the argument.
    cause = problem.args[0] if problem.args else problem
    if isinstance(cause, ssl.SSLError):
        reason = getattr(cause, "verify_message", "") or cause.reason or str(cause)
        return ToolError("http.transport", f"{what} could not be sent: TLS failed ({reason})", code="tls")
    message = f"{what} could not be sent: {_reason(problem)}"
    return ToolError("http.transport", message, retryable=True, code="connect")


def _exceeded_limit(problem: Exception, timeout: RequestTimeout) -> str:
    match problem:
        case httpcore2.ConnectTimeout():
            return f"no connection within {timeout.connect_s:g} s (timeout.connect)"
        case httpcore2.WriteTimeout():
            return f"nothing could be written for {timeout.read_s:g} s (timeout.read)"
        case _:
            return f"nothing was received for {timeout.read_s:g} s (timeout.read)"


def _reason(problem: BaseException) -> str:
    """The message of the innermost cause, which comes from the system."""
    inner = problem.args[0] if problem.args and isinstance(problem.args[0], BaseException) else problem
    while inner.__cause__ is not None:
        inner = inner.__cause__
    number = getattr(inner, "errno", None)
    text = os.strerror(number) if isinstance(number, int) and number > 0 else str(inner) or type(inner).__name__
    return text[:1].lower() + text[1:].rstrip(".")


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SCHEMES = ("http", "https")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # repeating them has no effect
# The length that servers commonly allow for an Idempotency-Key.
_MAX_KEY_CHARS = 255


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, ready to be sent. Query parameters in `secret_params` must not be shown."""

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


def request_of_task(
    inputs: Mapping[str, Any], credential: AttachedCredential, idempotency_key: str, traceparent: str | None = None
) -> HttpRequest:
    """The request of a task run. Raises InvalidRequest if it cannot be sent."""
    method, url = method_of(inputs), url_of(inputs.get("url"))
    lines = header_lines(inputs.get("headers"))
    body = body_of(inputs, header_value(lines, "content-type"))
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
        defaults["Idempotency-Key"] = idempotency_header(idempotency_key)
    for name, value in defaults.items():
        if value is not None and not has_header(lines, name):  # a header of the author wins (reliability.md §3.4)
            lines += header_lines({name: value})
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
        raise InvalidRequest(f'method "{clipped(written, 40)}" is not known: write {", ".join(METHODS)}')
    return method


def url_of(written: Any) -> httpx2.URL:
    """The URL of a request: http or https, with a host."""
    if not isinstance(written, str) or not written.strip():
        raise InvalidRequest("it has no url")
    try:
        url = httpx2.URL(written.strip())
    except (httpx2.InvalidURL, UnicodeError) as problem:
        raise InvalidRequest(
            f"its url is not one: {str(problem).partition(':')[0]}"
        ) from None  # the rest quotes the URL, which may hold a secret
    return checked_url(url)


def checked_url(url: httpx2.URL) -> httpx2.URL:
    if not url.scheme:
        raise InvalidRequest("its url does not begin with http:// or https://")
    if url.scheme not in SCHEMES:
        raise InvalidRequest(
            f'its url begins with "{clipped(url.scheme, 40)}:", and only http:// and https:// are sent'
        )
    if not url.host:
        raise InvalidRequest("its url has no host")
    if url.port is not None and not 0 < url.port < 65_536:
        # The message does not show the port: in http://user:12345678/9@host it is a part of the password.
        raise InvalidRequest("its url has an invalid port: ports go from 1 to 65535")
    return url


def idempotency_header(key: str) -> str:
    """An idempotency key in characters that a header can carry: the same text for the same key."""
    line = quote(key, safe="/#:@!$&'()*+,;=", errors="surrogatepass")
    return line if len(line) <= _MAX_KEY_CHARS else sha256(line.encode()).hexdigest()


def _with_query(url: httpx2.URL, inputs: Mapping[str, Any], credential: AttachedCredential) -> httpx2.URL:
    """The URL with `params` after its own query, without a user name, a password or a fragment."""
    query = url.query.decode("ascii")
    for what, params in (
        ("params", inputs.get("params")),
        ("data.query", query_of(inputs.get("data"))),
        ("auth", credential.params),
    ):
        if params:
            query = joined_queries(query, query_string(params, what))
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


# Queries and bodies, in each spelling that an author may use (TOOL-02, design.md §5).


def query_string(written: Any, what: str) -> str:
    """A mapping as `a=1&b=2`. A list repeats its name, null leaves it out, a mapping is sent as JSON."""
    if not isinstance(written, Mapping):
        raise InvalidRequest(f"{what} must be a mapping of names to values, not {type(written).__name__}")
    pairs = [(str(name), text) for name, value in written.items() for text in _texts(value)]
    return urlencode(pairs, quote_via=quote, errors="surrogatepass")


def _texts(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        match item:
            case None:
                continue
            case bool():
                yield "true" if item else "false"
            case dict() | list():
                yield msgspec.json.encode(item).decode()
            case _:
                yield str(item)


def joined_queries(query: str, more: str) -> str:
    return f"{query}&{more}" if query and more else query or more


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
TEXT = "text/plain; charset=utf-8"

_SPELLINGS = ("json", "body", "form", "data")
_QUERY_AND_BODY = frozenset({"query", "body"})


class RequestBody(msgspec.Struct, frozen=True):
    """A body. `media_type` is used unless the author's headers set another."""

    content: bytes | None = None
    media_type: str | None = None


def body_of(inputs: Mapping[str, Any], content_type: str) -> RequestBody:
    """The body of a task's inputs; `content_type` is the author's header, if there is one."""
    bodies = {spelling: inputs[spelling] for spelling in _SPELLINGS if inputs.get(spelling) is not None}
    if query_of(bodies.get("data")) is not None:
        bodies["data"] = bodies["data"].get("body")
    bodies = {spelling: value for spelling, value in bodies.items() if value is not None}
    if len(bodies) > 1:
        raise InvalidRequest(f"it has several bodies ({', '.join(bodies)}): keep one of them")
    for spelling, value in bodies.items():
        match spelling:
            case "json":
                return _json(value)
            case "form":
                return RequestBody(query_string(value, "form").encode(), FORM)
            case _:
                return _any_body(value, content_type)
    return RequestBody()


def query_of(data: Any) -> Mapping[str, Any] | None:
    """The query of `data: {query, body}`; None when `data` is the body itself.

    A `query` that is text is a body: GraphQL documents are sent like that.
    """
    if not isinstance(data, Mapping) or not data or not data.keys() <= _QUERY_AND_BODY:
        return None
    query = data.get("query")
    if query is None:
        return {}
    return query if isinstance(query, Mapping) else None


def _any_body(value: Any, content_type: str) -> RequestBody:
    """Text is sent unchanged, anything else as JSON, or as a form if the author's header says so."""
    if isinstance(value, str):
        content = value.encode("utf-8", "surrogatepass")
        return RequestBody(content, JSON if _is_json(content) else TEXT)
    if isinstance(value, Mapping) and content_type.lower().startswith(FORM):
        return RequestBody(query_string(value, "the body").encode(), FORM)
    return _json(value)


def _json(value: Any) -> RequestBody:
    try:
        return RequestBody(msgspec.json.encode(value), JSON)
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidRequest(f"its body cannot be written as JSON: {problem}") from None


def _is_json(content: bytes) -> bool:
    """Whether text is a JSON document (`{{ … | tojson }}`): servers refuse JSON that is declared as plain text."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return False
    return True
