"""Pools: connections kept open between requests, one pool for plain text and one for each way of checking TLS.

They are below httpx2's client on purpose: a client keeps cookies, and a worker serves many executions that must not
see each other's. Each proxy has pools of its own; which one a request takes is said here, host by host.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, AsyncIterator
from typing import cast

import httpcore2
import httpx2

from noetl.base.addresses.connections import GuardedBackend, connection_pool
from noetl.base.addresses.proxies import DIRECT, OutboundProxies, Proxy

MAX_CONNECTIONS = 256
MAX_IDLE = 32
# Shorter than servers and load balancers keep idle connections, so that few requests meet one that was just closed.
IDLE_S = 15.0


class HttpPools:
    def __init__(self, backend: GuardedBackend, proxies: OutboundProxies = DIRECT) -> None:
        self._backend, self._proxies = backend, proxies
        self._pools: dict[tuple[bool, bool, Proxy | None], httpcore2.AsyncConnectionPool] = {}

    async def send(self, request: httpx2.Request, *, verify_ssl: bool) -> httpx2.Response:
        """The response, its body not yet read. The caller closes it."""
        url = request.url
        proxy = self._proxies.proxy_for(url.scheme, url.host, url.port)
        if proxy is not None:
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
        """A connection whose certificate was not checked must never serve a request that wants it checked."""
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
