"""`http`: calls a URL (TOOL-02 to TOOL-04, O-12).

One instance serves a worker. It keeps connections open between requests, and nothing else. A status of 400 or more is
an error outcome; so is a request without an answer, with the status null.

The tool uses connection pools without httpx2's client on purpose: a client keeps cookies, and the executions of a
worker must not share them. There is one pool for plain HTTP and one for each way of checking TLS, for every proxy.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, cast

import httpcore2
import httpx2
import msgspec

from noetl.base.addresses.connections import GuardedBackend, connection_pool
from noetl.base.addresses.policy import OPEN, AddressGuard, AddressPolicy, BlockedError, UnresolvedError
from noetl.base.addresses.proxies import DIRECT, OutboundProxies, Proxy
from noetl.base.errors import ToolError
from noetl.base.redaction import MASK
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.http import calls
from noetl.tools.http.message import Line, content_of, response_headers
from noetl.tools.http.request_options import (
    InvalidRequest,
    RequestOptions,
    attached_credential,
    fields_of,
    options_from_spec,
)

MAX_CONNECTIONS = 256
MAX_IDLE = 32
# Shorter than servers and load balancers keep idle connections, so that few requests meet one that was just closed.
IDLE_S = 15.0


class HttpPools:
    """The connection pools of a worker, by TLS mode and proxy."""

    def __init__(self, backend: GuardedBackend, proxies: OutboundProxies = DIRECT) -> None:
        self._backend, self._proxies = backend, proxies
        self._pools: dict[tuple[bool, bool, Proxy | None], httpcore2.AsyncConnectionPool] = {}

    async def send(self, request: httpx2.Request, *, verify_ssl: bool) -> httpx2.Response:
        """The response, with its body not yet read. The caller closes it."""
        url = request.url
        proxy = self._proxies.proxy_for(url.scheme, url.host, url.port)
        if proxy is not None:
            # The proxy resolves the name, so the guard has to judge the host before the request leaves.
            await self._backend.guard.allow_by_proxy(url.host, url.port or (443 if url.scheme == "https" else 80))
        answer = await self._pool(url.scheme == "https", verify_ssl, proxy).handle_async_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=url.raw_scheme,
                    host=url.raw_host,
                    port=url.port,
                    target=url.raw_path,
                ),
                headers=request.headers.raw,
                content=cast("httpx2.AsyncByteStream", request.stream),
                extensions=request.extensions,
            )
        )
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Stream(cast("AsyncIterable[bytes]", answer.stream)),
            extensions=answer.extensions,
            request=request,
        )

    def _pool(self, tls: bool, verify_ssl: bool, proxy: Proxy | None) -> httpcore2.AsyncConnectionPool:
        # A connection whose certificate was not checked must never serve a request that wants it checked.
        key = (tls, verify_ssl or not tls, proxy)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = connection_pool(
                self._backend,
                proxy,
                tls=_tls(verify_ssl) if tls else None,
                max_connections=MAX_CONNECTIONS,
                max_keepalive_connections=MAX_IDLE,
                keepalive_expiry=IDLE_S,
            )
        return pool

    async def close(self) -> None:
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            await pool.aclose()


def _tls(verify_ssl: bool) -> ssl.SSLContext:
    return httpx2.create_ssl_context(verify=verify_ssl)


class _ReceivedTooMuchError(Exception):
    """More bytes arrived than the task takes."""


class _Stream(httpx2.AsyncByteStream):
    """Adapts the body stream of the pool to httpx2, and counts what arrives before it is decompressed."""

    def __init__(self, inner: AsyncIterable[bytes]) -> None:
        self._inner = inner
        self.max_bytes: int | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for part in self._inner:
            received += len(part)
            # Compressed bytes may decompress to nothing at all, so counting what comes out of them is not enough.
            if self.max_bytes is not None and received > self.max_bytes:
                raise _ReceivedTooMuchError
            yield part

    async def aclose(self) -> None:
        if (close := getattr(self._inner, "aclose", None)) is not None:
            await close()


# Bodies of responses are read in pieces and bounded (reliability.md §2.5, response bombs). The size after decompression
# counts. Text compresses by a factor of five to twenty; a body that grows a hundredfold was made to fill memory, and is
# refused before it is large. Below a megabyte it does no harm. A body that is compressed several times is refused
# unread: inner layers can grow a thousandfold each and come to nothing in the end, so that no size is ever exceeded.
MAX_RATIO = 100
RATIO_FROM_BYTES = 1024 * 1024
# The body of a redirect is read so that the connection can be used again; a long one costs more than a new connection.
_MAX_SKIPPED_BYTES = 64 * 1024


async def read_body(response: httpx2.Response, max_bytes: int, what: str) -> bytes:
    """The whole body. Raises ToolError `result.too_large` as soon as it is known to be too long."""
    declared = response.headers.get("content-length", "")
    encoded = "content-encoding" in response.headers
    is_head = response.request.method == "HEAD"
    codings = [one for one in response.headers.get("content-encoding", "").split(",") if one.strip() != "identity"]
    if len(codings) > 1 and not is_head:
        message = f"{what} gave a body that is compressed {len(codings)} times, and one time is allowed"
        raise ToolError("result.too_large", message)
    if isinstance(response.stream, _Stream):
        response.stream.max_bytes = max_bytes
    if not encoded and not is_head and declared.isdecimal() and int(declared) > max_bytes:
        raise _too_long(what, f"{int(declared):,} bytes", max_bytes)
    pieces: list[bytes] = []
    size = 0
    try:
        async with aclosing(response.aiter_bytes()) as arriving:
            async for piece in arriving:
                pieces.append(piece)
                size += len(piece)
                if size > max_bytes:
                    raise _too_long(what, f"more than {max_bytes:,} bytes", max_bytes)
                if encoded and size > RATIO_FROM_BYTES and size > MAX_RATIO * response.num_bytes_downloaded:
                    raise _bomb(what)
    except _ReceivedTooMuchError:
        raise _too_long(what, f"more than {max_bytes:,} bytes", max_bytes) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def skip_body(response: httpx2.Response) -> None:
    """Read and drop a body, so that its connection can be used again; a long one is cut off instead."""
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


_LIBRARY_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.ConnectionNotAvailable,
    httpx2.DecodingError,
    BlockedError,
    UnresolvedError,
    InvalidRequest,
)


class HttpTool(Tool):
    """The tool of the kind `http`. `policy` says which addresses may be reached (design.md §7)."""

    def __init__(self, policy: AddressPolicy = OPEN, *, backend: GuardedBackend | None = None) -> None:
        self._pools = HttpPools(backend or GuardedBackend(AddressGuard(policy)), policy.ways_out())

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        what, options = calls.request_label(inputs.get("method"), inputs.get("url"), context.mask), RequestOptions()
        try:
            options = options_from_spec(context.spec)
            credential = attached_credential(fields_of(inputs.get("auth"), context.resolve), options.auth_mode)
            call = calls.request_of_task(
                inputs, credential, context.task_run.idempotency_key, context.task_run.traceparent
            )
            # A URL with a secret is shown as written: after normalisation the secret could not be recognised.
            if MASK not in what:
                what = str(call)
            async with asyncio.timeout(options.timeout.total_s):
                last, response = await self._final_response(call, options, context)
                return await _result(last, response, options)
        except TimeoutError:
            raise ToolError(
                "timeout", f"{what} took longer than {options.timeout.total_s:g} s", retryable=True
            ) from None
        except _LIBRARY_ERRORS as problem:
            raise calls.error_outcome(what, problem, options.timeout) from None

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by a GET request. Raises ToolError with the answer if it is refused."""
        if not inputs.get("url"):
            raise ToolError("tool.exception", "name an address that asks for this credential: --url https://…")
        outcome = await self.run({**inputs, "method": "GET"}, context)
        return (
            f"GET {outcome.result['url']} answered {outcome.result['status']}{_status_phrase(outcome.result['status'])}"
        )

    async def _final_response(
        self, call: calls.HttpRequest, options: RequestOptions, context: ToolContext
    ) -> tuple[calls.HttpRequest, httpx2.Response]:
        """The last response of a chain of redirects, and the request that got it."""
        cookies: httpx2.Cookies | None = None  # of this chain only
        for _ in range(MAX_REDIRECTS + 1):
            request = _request(call, options, cookies)
            response = await self._pools.send(request, verify_ssl=options.verify_ssl)
            try:
                location = response.headers.get("location") if options.follow_redirects else None
                following = next_request(call, response.status_code, location, context.mask)
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


def _request(call: calls.HttpRequest, options: RequestOptions, cookies: httpx2.Cookies | None) -> httpx2.Request:
    return httpx2.Request(
        call.method,
        call.url,
        headers=list(call.lines),
        content=call.content,
        cookies=cookies,
        extensions={"timeout": options.timeout.extension()},
    )


async def _result(call: calls.HttpRequest, response: httpx2.Response, options: RequestOptions) -> ToolResult:
    """The outcome of a response. Its connection returns to the pool or is closed."""
    try:
        body = await read_body(response, options.max_bytes, str(call))
    finally:
        await response.aclose()
    status, headers = response.status_code, response_headers(response.headers.raw)
    content = content_of(body, headers.get("content-type", ""), str(call))
    if status >= 400 and status not in options.ok_statuses:
        raise ToolError(
            "http.status",
            f"{call} answered {status}{_status_phrase(status)}",
            retryable=calls.is_retryable(status),
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


def _status_phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


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
