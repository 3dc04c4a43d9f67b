"""Problems: everything that can go wrong with a request, as one sentence and one error kind (OUT-03, TOOL-03).

A request that got no answer is `http.transport`, whatever the reason; `code` tells the reasons apart. Addresses are
shown without the user name and password that may stand in them.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable
from typing import Any

import httpcore2
import httpx2

from noetl.base.addresses.guard import BlockedError, UnresolvedError
from noetl.base.errors import ToolError
from noetl.tools.http.request_options import RequestTimeout, Wrong

_LONGEST_URL = 300
_USERINFO = re.compile(r"//[^/?#]*@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# The 4xx that say nothing against the request itself; 5xx are retryable anyway.
RETRYABLE_STATUSES = frozenset({408, 425, 429})


def public_url(url: httpx2.URL, secret_params: frozenset[str] = frozenset()) -> str:
    """A URL as it may be told: without credentials."""
    if url.userinfo:
        url = url.copy_with(username="", password="")
    if secret_params:
        kept = [(name, value) for name, value in url.params.multi_items() if name not in secret_params]
        url = url.copy_with(params=kept)
    return str(url.copy_with(fragment=None)) if url.fragment else str(url)


def named(method: Any, url: Any, masked: Callable[[str], str]) -> str:
    """A request in words, before it is known whether it can be one."""
    written = _USERINFO.sub("//", _CONTROL.sub(" ", masked(str(url or "a request"))), count=1)
    return f"{clipped(masked(str(method or 'GET')).upper(), 40)} {clipped(written)}"


def clipped(text: str, longest: int = _LONGEST_URL) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def wrong(what: str, problem: str) -> ToolError:
    """Nothing was sent, because it cannot be."""
    return ToolError("http.transport", f"{what} was not sent: {problem}", code="request")


def is_retryable(status: int) -> bool:
    """Statuses that another attempt may change (TOOL-03)."""
    return status in RETRYABLE_STATUSES or status >= 500


def error_outcome(what: str, problem: Exception, timeout: RequestTimeout) -> ToolError:
    """The error outcome of an exception from below; `what` is the method and the URL."""
    match problem:
        case Wrong() | httpcore2.LocalProtocolError():
            return wrong(what, str(problem))
        case httpcore2.TimeoutException():
            return ToolError("timeout", f"{what} got no answer in time: {_waiting(problem, timeout)}", retryable=True)
        case BlockedError():
            return ToolError("http.transport", f"{what} is blocked: {problem.message}", code="blocked")
        case UnresolvedError():
            message = f"{what} could not be sent: the host was not found ({problem.message})"
            return ToolError("http.transport", message, retryable=True, code="dns")
        case httpcore2.ProxyError():
            message = f"{what} could not be sent: the proxy refused it ({problem})"
            return ToolError("http.transport", message, retryable=str(problem)[:1] == "5", code="proxy")
        case httpcore2.ConnectError():
            return _unconnected(what, problem)
        case httpx2.DecodingError():
            return ToolError("http.transport", f"{what} gave a body that cannot be decoded: {problem}", code="decoding")
        case _:
            message = f"{what} broke off: {_reason(problem)}"
            return ToolError("http.transport", message, retryable=True, code="disconnected")


def _unconnected(what: str, problem: Exception) -> ToolError:
    cause = problem.args[0] if problem.args else problem  # the pool cuts the chain, the original is the argument
    if isinstance(cause, ssl.SSLError):
        reason = getattr(cause, "verify_message", "") or cause.reason or str(cause)
        return ToolError("http.transport", f"{what} could not be sent: TLS failed ({reason})", code="tls")
    message = f"{what} could not be sent: {_reason(problem)}"
    return ToolError("http.transport", message, retryable=True, code="connect")


def _waiting(problem: Exception, timeout: RequestTimeout) -> str:
    match problem:
        case httpcore2.ConnectTimeout():
            return f"no connection within {timeout.connect_s:g} s (timeout.connect)"
        case httpcore2.WriteTimeout():
            return f"nothing could be written for {timeout.read_s:g} s (timeout.read)"
        case _:
            return f"nothing came for {timeout.read_s:g} s (timeout.read)"


def _reason(problem: BaseException) -> str:
    """The words of the innermost cause: what the system said."""
    inner = problem.args[0] if problem.args and isinstance(problem.args[0], BaseException) else problem
    while inner.__cause__ is not None:
        inner = inner.__cause__
    number = getattr(inner, "errno", None)
    text = os.strerror(number) if isinstance(number, int) and number > 0 else str(inner) or type(inner).__name__
    return text[:1].lower() + text[1:].rstrip(".")
