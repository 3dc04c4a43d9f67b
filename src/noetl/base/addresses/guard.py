"""The guard: looks a host up once, judges every address it has, and gives the addresses to connect to.

A caller connects to an address it was given, never to the name: a second lookup may have another answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from noetl.base.addresses.policy import OPEN, Address, AddressPolicy, literal
from noetl.base.errors import ToolError

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class BlockedError(ToolError):
    """The policy does not let this host be reached."""

    def __init__(self, why: str) -> None:
        super().__init__("tool.not_allowed", why, code="blocked")


class UnresolvedError(ToolError):
    """The host's name is not known."""

    def __init__(self, why: str) -> None:
        super().__init__("tool.unreachable", why, retryable=True, code="dns")


async def resolved(host: str, port: int) -> Sequence[Address]:
    """Every address of a host, as the system's resolver tells them, in its order."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise UnresolvedError(getattr(problem, "strerror", None) or str(problem)) from None
    addresses = (literal(str(address[0])) for _, _, _, _, address in found)
    return list(dict.fromkeys(address for address in addresses if address is not None))


class AddressGuard:
    """An AddressPolicy and a resolver: the one door through which connections find their addresses."""

    def __init__(self, policy: AddressPolicy = OPEN, *, resolve: Resolve = resolved) -> None:
        self.policy = policy
        self._resolve = resolve

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of `host`, all of which may be reached. BlockedError or UnresolvedError otherwise."""
        written = literal(host.removesuffix("."))
        addresses = [written] if written is not None else await self._resolve(host, port)
        if not addresses:
            raise UnresolvedError("it has no address")
        for address in addresses:  # one bad one is enough: a mixed answer is how a guard is fooled
            if why := self.policy.refusal(host, address):
                raise BlockedError(f"{address} is {why}" if written is not None else f"it is at {address}, {why}")
        return addresses

    async def allow_by_proxy(self, host: str, port: int) -> None:
        """Nothing where a proxy may be asked for `host`, else BlockedError. The proxy looks the name up once more, so
        what it reaches is its own to bound; what this machine can tell of the name is held to here."""
        try:
            await self.addresses(host, port)
        except UnresolvedError:
            if why := self.policy.unresolved_refusal(host):
                raise BlockedError(why) from None

    async def address(self, what: str, host: str, port: int) -> str:
        """The first address of `host`, for drivers that take one. The error says `what` could not be reached."""
        try:
            return str((await self.addresses(host, port))[0])
        except BlockedError as problem:
            raise BlockedError(f"{what} is blocked: {problem.message}") from None
        except UnresolvedError as problem:
            raise UnresolvedError(f"{what} cannot be reached: the host was not found ({problem.message})") from None

    def allow_socket(self, what: str, path: str) -> None:
        """Nothing where a Unix socket may be reached, else BlockedError."""
        if why := self.policy.socket_refusal(path):
            raise BlockedError(f"{what} is blocked: {path} is {why}")


UNGUARDED = AddressGuard()  # an embedded run: loopback and private addresses are open (design.md §7)
