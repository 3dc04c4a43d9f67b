"""Pools: connections kept open between requests, one pool for plain text and one for each way of checking TLS.

They are below httpx2's client on purpose: a client keeps cookies, and a worker serves many executions that must not
see each other's. No proxy is taken from the environment; there is no way here to have one.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, AsyncIterator
from typing import cast

import httpcore2
import httpx2

from noetl.base.addresses.connections import GuardedBackend

MAX_CONNECTIONS = 256
MAX_IDLE = 32
IDLE_S = 15.0


class HttpPools:
    def __init__(self, backend: GuardedBackend) -> None:
        self._backend = backend
        self._pools: dict[tuple[bool, bool], httpcore2.AsyncConnectionPool] = {}

    async def send(self, request: httpx2.Request, *, verify_ssl: bool) -> httpx2.Response:
        """The response, its body not yet read. The caller closes it."""
        url = request.url
        answer = await self._pool(url.scheme == "https", verify_ssl).handle_async_request(
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

    def _pool(self, tls: bool, verify_ssl: bool) -> httpcore2.AsyncConnectionPool:
        """A connection whose certificate was not checked must never serve a request that wants it checked."""
        key = (tls, verify_ssl or not tls)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = httpcore2.AsyncConnectionPool(
                ssl_context=_tls(verify_ssl) if tls else None,
                max_connections=MAX_CONNECTIONS,
                max_keepalive_connections=MAX_IDLE,
                keepalive_expiry=IDLE_S,
                network_backend=self._backend,
            )
        return pool

    async def close(self) -> None:
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            await pool.aclose()


def _tls(verify_ssl: bool) -> ssl.SSLContext:
    return httpx2.create_ssl_context(verify=verify_ssl)


class _Stream(httpx2.AsyncByteStream):
    """The body of a response, as httpx2 wants it."""

    def __init__(self, inner: AsyncIterable[bytes]) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            yield part

    async def aclose(self) -> None:
        if (close := getattr(self._inner, "aclose", None)) is not None:
            await close()
