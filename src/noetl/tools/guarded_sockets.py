"""The address policy for all sockets of a child process.

It covers drivers in pure Python: every connection they open, by name, by address or after a redirect, is checked here.
A name is resolved once, and the connection goes to an address that was checked. Drivers with their own network stack
use `guarded_proxy` instead.
"""

from __future__ import annotations

import socket
from typing import Any

from noetl.base.addresses.policy import AddressPolicy, literal

_REAL_LOOKUP = socket.getaddrinfo
_REAL_CONNECT = socket.socket.connect
_REAL_CONNECT_EX = socket.socket.connect_ex


class BlockedConnectionError(PermissionError):
    """The policy forbids this address."""


class GuardedSockets:
    """The policy of this process. `refusal` is why the last connection was refused: drivers often hide the reason."""

    def __init__(self, policy: AddressPolicy) -> None:
        self.policy = policy
        self.refusal: str | None = None
        # Addresses of names that the policy allows. A driver connects to the address, and the policy may allow the host
        # by its name only.
        self._allowed: set[str] = set()

    def install(self) -> None:
        """Apply the policy to every socket of this process, from now on."""
        lookup, judged = self._lookup, self._checked_address

        def guarded_connect(own: socket.socket, address: Any) -> None:
            _REAL_CONNECT(own, judged(own, address))

        def guarded_connect_ex(own: socket.socket, address: Any) -> int:
            return _REAL_CONNECT_EX(own, judged(own, address))

        # Drivers resolve names by this function and connect by these methods. A name is judged where it is resolved, an
        # address where it is used.
        socket.getaddrinfo = lookup
        socket.socket.connect = guarded_connect  # type: ignore[method-assign, assignment]
        socket.socket.connect_ex = guarded_connect_ex  # type: ignore[method-assign, assignment]

    def _lookup(self, host: Any, *arguments: Any, **options: Any) -> Any:
        entries = _REAL_LOOKUP(host, *arguments, **options)
        name = host.decode() if isinstance(host, bytes) else str(host or "")
        for entry in entries:
            if (address := literal(str(entry[4][0]))) is None:
                continue
            if why := self.policy.refusal(name, address):
                raise self._blocked(f"{name} is blocked: it is at {address}, {why}")
            self._allowed.add(str(address))
        return entries

    def _checked_address(self, own: socket.socket, address: Any) -> Any:
        """The address to connect to. Raises BlockedConnectionError if the policy forbids it."""
        if own.family == socket.AF_UNIX:
            path = address.decode() if isinstance(address, bytes) else str(address)
            if why := self.policy.socket_refusal(path):
                raise self._blocked(f"{path} is blocked: it is {why}")
            return address
        host = str(address[0])
        if host in self._allowed:
            return address
        if (literal_address := literal(host)) is None:
            # The address that was judged, not the name: the socket would resolve it again, perhaps to another one.
            return self._lookup(host, address[1], own.family, own.type)[0][4]
        if why := self.policy.refusal(host, literal_address):
            raise self._blocked(f"{host} is blocked: it is {why}")
        return address

    def _blocked(self, why: str) -> BlockedConnectionError:
        self.refusal = why
        return BlockedConnectionError(why)
