"""`http`: calls a URL (TOOL-02 to TOOL-04, O-12).

One instance serves a worker: it keeps connections open between requests, and nothing else. A status of 400 or more is
an error outcome; so is a request that got no answer, with a status of null.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import httpcore2
import httpx2
import msgspec

from noetl.base.addresses.connections import GuardedBackend
from noetl.base.addresses.guard import AddressGuard, BlockedError, UnresolvedError
from noetl.base.addresses.policy import OPEN, AddressPolicy
from noetl.base.errors import ToolError
from noetl.base.redaction import MASK
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.http.calls import HttpRequest, call_of, checked
from noetl.tools.http.message import content_of, read
from noetl.tools.http.pools import HttpPools
from noetl.tools.http.problems import clipped, error_outcome, is_retryable, named
from noetl.tools.http.request_options import Knobs, Wrong, attached, fields_of, knobs_of

# A response's body, in pieces and within bounds (reliability.md §2.5, response bombs).
#
# What counts is the size after decompression; a body that grows a hundredfold on the way is refused before it is
# large.

# Text compresses by five to twenty. A body that grows a hundredfold was made to fill memory; below a megabyte it
# cannot.
MAX_RATIO = 100
RATIO_FROM_BYTES = 1024 * 1024
# The body of a redirect is read so that the connection can be used again; a long one costs more than a new connection.
_MAX_SKIPPED_BYTES = 64 * 1024


async def read_body(response: httpx2.Response, max_bytes: int, what: str) -> bytes:
    """All of a body. ToolError `result.too_large` as soon as it is known to be too long."""
    declared = response.headers.get("content-length", "")
    encoded = "content-encoding" in response.headers
    is_head = response.request.method == "HEAD"
    if not encoded and not is_head and declared.isdecimal() and int(declared) > max_bytes:
        raise _too_long(what, f"{int(declared):,} bytes", max_bytes)
    pieces: list[bytes] = []
    size = 0
    async with aclosing(response.aiter_bytes()) as arriving:
        async for piece in arriving:
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise _too_long(what, f"more than {max_bytes:,} bytes", max_bytes)
            if encoded and size > RATIO_FROM_BYTES and size > MAX_RATIO * response.num_bytes_downloaded:
                raise _bomb(what)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def skip_body(response: httpx2.Response) -> None:
    """Read a body nobody wants, so that its connection can be used again; a long one is cut off instead."""
    size = 0
    async with aclosing(response.aiter_raw()) as arriving:
        async for piece in arriving:
            size += len(piece)
            if size > _MAX_SKIPPED_BYTES:
                break
    await response.aclose()


def _too_long(what: str, size: str, max_bytes: int) -> ToolError:
    return ToolError("result.too_large", f"{what} gave a body of {size}, and spec.max_bytes allows {max_bytes:,}")


def _bomb(what: str) -> ToolError:
    message = f"{what} gave a body that grows more than {MAX_RATIO} times when it is decompressed"
    return ToolError("result.too_large", message)


_FROM_BELOW = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.ConnectionNotAvailable,
    httpx2.DecodingError,
    BlockedError,
    UnresolvedError,
    Wrong,
)


class HttpTool:
    """`policy` says which addresses may be reached; a server gives a closed one (design.md §7)."""

    def __init__(self, policy: AddressPolicy = OPEN, *, backend: GuardedBackend | None = None) -> None:
        self._pools = HttpPools(backend or GuardedBackend(AddressGuard(policy)), policy.ways_out())

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        what, knobs = named(inputs.get("method"), inputs.get("url"), context.masked), Knobs()
        try:
            knobs = knobs_of(context.spec)
            credential = attached(fields_of(inputs.get("auth"), context.resolve), knobs.auth_mode)
            call = call_of(inputs, credential, context.idempotency_key, context.traceparent)
            if MASK not in what:  # a URL with a secret is told as it was written: normalised it could not be masked
                what = str(call)
            async with asyncio.timeout(knobs.timeout.total_s):
                last, response = await self._final_response(call, knobs)
                return await _result(last, response, knobs)
        except TimeoutError:
            raise ToolError("timeout", f"{what} took longer than {knobs.timeout.total_s:g} s", retryable=True) from None
        except _FROM_BELOW as problem:
            raise error_outcome(what, problem, knobs.timeout) from None

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the address takes the credential: asks for it by GET. ToolError says what it answered."""
        if not inputs.get("url"):
            raise ToolError("tool.exception", "name an address that asks for this credential: --url https://…")
        found = await self.run({**inputs, "method": "GET"}, context)
        return f"GET {found.result['url']} answered {found.result['status']}{_phrase(found.result['status'])}"

    async def _final_response(self, call: HttpRequest, knobs: Knobs) -> tuple[HttpRequest, httpx2.Response]:
        """The last response of a chain of redirects, and the call that got it."""
        cookies: httpx2.Cookies | None = None  # of this chain alone
        for _ in range(MAX_REDIRECTS + 1):
            request = _request(call, knobs, cookies)
            response = await self._pools.send(request, verify_ssl=knobs.verify_ssl)
            try:
                location = response.headers.get("location") if knobs.follow_redirects else None
                following = next_call(call, response.status_code, location)
                if following is None:
                    return call, response
                cookies = cookies or httpx2.Cookies()
                cookies.extract_cookies(response)
                await skip_body(response)
            except BaseException:
                await response.aclose()
                raise
            call = following
        raise ToolError("http.transport", f"{call} was redirected more than {MAX_REDIRECTS} times", code="redirects")

    async def close(self) -> None:
        await self._pools.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {"http": {"status": None, "headers": None}}


def _request(call: HttpRequest, knobs: Knobs, cookies: httpx2.Cookies | None) -> httpx2.Request:
    return httpx2.Request(
        call.method,
        call.url,
        headers=list(call.lines),
        content=call.content,
        cookies=cookies,
        extensions={"timeout": knobs.timeout.extension()},
    )


async def _result(call: HttpRequest, response: httpx2.Response, knobs: Knobs) -> ToolResult:
    """The outcome of a response, its connection given back or closed."""
    try:
        body = await read_body(response, knobs.max_bytes, str(call))
    finally:
        await response.aclose()
    status, headers = response.status_code, read(response.headers.raw)
    content = content_of(body, headers.get("content-type", ""), str(call))
    if status >= 400 and status not in knobs.ok_statuses:
        raise ToolError(
            "http.status",
            f"{call} answered {status}{_phrase(status)}",
            retryable=is_retryable(status),
            status=status,
            headers=headers,
            data=content.data,
        )
    result: dict[str, Any] = {
        "status": status,
        "status_code": status,
        "headers": dict(headers),
        "data": content.data,
        "url": call.shown_url,
    }
    if content.media_type is not None:
        result |= {"media_type": content.media_type, "encoding": "base64"}
    return ToolResult(result=result, wrapped=True, helpers={"http": {"status": status, "headers": headers}})


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


# Redirects: what is asked next when a response points elsewhere (O-12).
# Each hop is a new call through the same guard. At another origin nothing that may be a credential is sent along:
# only headers known to be harmless are (reliability.md §2.5).
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
