"""Guarded HTTP connections: only to addresses that the guard has checked (`noetl.base.addresses`).

It sits below the connection pool, so that nothing above can open a connection that was not checked: no redirect, no
second lookup, no odd spelling. The Host header and TLS still use the name.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any

from httpcore2 import (
    SOCKET_OPTION,
    URL,
    AnyIOBackend,
    AsyncConnectionPool,
    AsyncHTTPProxy,
    AsyncNetworkBackend,
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
)

from noetl.base.addresses.policy import Address, AddressGuard, BlockedError
from noetl.base.addresses.proxies import Proxy

NEXT_ADDRESS_S = 3.0  # for one of several addresses, before the next one is tried


def connection_pool(
    backend: GuardedBackend, proxy: Proxy | None, *, tls: ssl.SSLContext | None, **limits: Any
) -> AsyncConnectionPool:
    """A pool of connections that `backend` opens, or that a proxy opens. The operator chose the proxy, so its address
    is not checked; the caller asks `backend.guard` for each host before it sends."""
    if proxy is None:
        return AsyncConnectionPool(ssl_context=tls, network_backend=backend, **limits)
    import httpx2

    return AsyncHTTPProxy(
        proxy_url=URL(scheme=proxy.scheme, host=proxy.host, port=proxy.port, target="/"),
        proxy_auth=proxy.login,
        proxy_ssl_context=httpx2.create_ssl_context() if proxy.scheme == "https" else None,
        ssl_context=tls,
        **limits,
    )


class GuardedBackend(AsyncNetworkBackend):
    """Opens connections for the pool, to addresses that a guard has given."""

    def __init__(self, guard: AddressGuard, *, inner: AsyncNetworkBackend | None = None) -> None:
        self.guard = guard
        self._inner = inner or AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        deadline = None if timeout is None else monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                # Looked up here and connected to by address: between a check and a second look-up a name may change
                # (DNS rebinding).
                addresses = await self.guard.addresses(host, port)
        except TimeoutError:
            raise ConnectTimeout(f"{host} was not looked up in time") from None
        options: dict[str, Any] = {"local_address": local_address, "socket_options": socket_options}
        return await self._first_connection(addresses, port, deadline, options)

    async def _first_connection(
        self, addresses: Sequence[Address], port: int, deadline: float | None, options: dict[str, Any]
    ) -> AsyncNetworkStream:
        """A connection to the first address that answers."""
        # A host with a dead IPv6 address and a live IPv4 one is common. The last address gets all the time that is
        # left.
        for address in addresses[:-1]:
            wait_s = min(NEXT_ADDRESS_S, _remaining_s(deadline))
            try:
                return await self._inner.connect_tcp(str(address), port, timeout=wait_s, **options)
            except (ConnectError, ConnectTimeout):
                continue
        last_s = None if deadline is None else _remaining_s(deadline)
        return await self._inner.connect_tcp(str(addresses[-1]), port, timeout=last_s, **options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        raise BlockedError("Unix sockets are not reached by http tasks")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _remaining_s(deadline: float | None) -> float:
    return NEXT_ADDRESS_S if deadline is None else max(deadline - monotonic(), 0.001)
