"""Sockets of a child process, held to the address policy.

For drivers in pure Python: whatever they connect to, by name, by address or after a redirect, passes here. A name is
looked up once, judged, and connected to at the address that was judged. Drivers with a network stack of their own are
not reached by this; they are given `guarded_proxy`.
"""

from __future__ import annotations

import socket
from typing import Any

from noetl.base.addresses.policy import AddressPolicy, literal

_REAL_LOOKUP = socket.getaddrinfo
_REAL_CONNECT = socket.socket.connect
_REAL_CONNECT_EX = socket.socket.connect_ex


class BlockedConnectionError(PermissionError):
    """The policy does not let this address be reached."""


class GuardedSockets:
    """The policy of this process. `refusal` is why the last connection was refused, whatever a driver made of it."""

    def __init__(self, policy: AddressPolicy) -> None:
        self.policy = policy
        self.refusal: str | None = None
        self._judged: set[str] = set()  # addresses that a name, which the policy knows, has led to

    def install(self) -> None:
        """Hold every socket of this process to the policy, from now on."""
        lookup, connect = self._lookup, self._check

        def connect_judged(own: socket.socket, address: Any) -> None:
            connect(own, address)
            _REAL_CONNECT(own, address)

        def connect_ex_judged(own: socket.socket, address: Any) -> int:
            connect(own, address)
            return _REAL_CONNECT_EX(own, address)

        socket.getaddrinfo = lookup
        socket.socket.connect = connect_judged  # type: ignore[method-assign, assignment]
        socket.socket.connect_ex = connect_ex_judged  # type: ignore[method-assign, assignment]

    def _lookup(self, host: Any, *rest: Any, **more: Any) -> Any:
        found = _REAL_LOOKUP(host, *rest, **more)
        name = host.decode() if isinstance(host, bytes) else str(host or "")
        for entry in found:
            if (address := literal(str(entry[4][0]))) is None:
                continue
            if why := self.policy.refusal(name, address):
                raise self._blocked(f"{name} is blocked: it is at {address}, {why}")
            self._judged.add(str(address))
        return found

    def _check(self, own: socket.socket, address: Any) -> None:
        if own.family == socket.AF_UNIX:
            path = address.decode() if isinstance(address, bytes) else str(address)
            if why := self.policy.socket_refusal(path):
                raise self._blocked(f"{path} is blocked: it is {why}")
            return
        host = str(address[0])
        if host in self._judged:
            return
        if (found := literal(host)) is None:
            self._lookup(host, address[1])
        elif why := self.policy.refusal(host, found):
            raise self._blocked(f"{host} is blocked: it is {why}")

    def _blocked(self, why: str) -> BlockedConnectionError:
        self.refusal = why
        return BlockedConnectionError(why)
