"""Guard: the only door to the network. It looks a name up once, checks every address, and connects to a checked one.

It sits below the connection pool, so that nothing above can open a connection that was not checked: no redirect, no
second lookup, no odd spelling. The name stays what it was for the Host header and for TLS.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import Any

from httpcore2 import SOCKET_OPTION, AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout

from noetl.tools.http.addresses import Address, AddressPolicy, literal

NEXT_ADDRESS_S = 3.0  # how long one of several addresses may keep the others waiting

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class Blocked(Exception):  # noqa: N818  a refusal by the operator's policy, which the tool tells in its own words
    """The policy does not let this host be reached."""


class Unresolved(Exception):  # noqa: N818
    """The host's name is not known."""


async def resolved(host: str, port: int) -> Sequence[Address]:
    """Every address of a host, as the system's resolver tells them, in its order."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise Unresolved(getattr(problem, "strerror", None) or str(problem)) from None
    addresses = (literal(str(address[0])) for _, _, _, _, address in found)
    return list(dict.fromkeys(address for address in addresses if address is not None))


class GuardedBackend(AsyncNetworkBackend):
    """Opens connections for the pool, under an AddressPolicy."""

    def __init__(
        self, policy: AddressPolicy, *, resolve: Resolve = resolved, inner: AsyncNetworkBackend | None = None
    ) -> None:
        self._policy = policy
        self._resolve = resolve
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
                addresses = await self._checked(host, port)
        except TimeoutError:
            raise ConnectTimeout(f"{host} was not looked up in time") from None
        options: dict[str, Any] = {"local_address": local_address, "socket_options": socket_options}
        return await self._first(addresses, port, deadline, options)

    async def _checked(self, host: str, port: int) -> Sequence[Address]:
        written = literal(host.removesuffix("."))
        addresses = [written] if written is not None else await self._resolve(host, port)
        if not addresses:
            raise Unresolved("it has no address")
        for address in addresses:  # one bad one is enough: a mixed answer is how a guard is fooled
            if why := self._policy.refusal(host, address):
                raise Blocked(f"{address} is {why}" if written is not None else f"it is at {address}, {why}")
        return addresses

    async def _first(
        self, addresses: Sequence[Address], port: int, deadline: float | None, options: dict[str, Any]
    ) -> AsyncNetworkStream:
        """A connection to the first address that answers."""
        for address in addresses[:-1]:
            wait_s = min(NEXT_ADDRESS_S, _left(deadline))
            try:
                return await self._inner.connect_tcp(str(address), port, timeout=wait_s, **options)
            except (ConnectError, ConnectTimeout):
                continue
        last_s = None if deadline is None else _left(deadline)
        return await self._inner.connect_tcp(str(addresses[-1]), port, timeout=last_s, **options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        raise Blocked("unix sockets are not reached by http tasks")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _left(deadline: float | None) -> float:
    return NEXT_ADDRESS_S if deadline is None else max(deadline - monotonic(), 0.001)
