"""The address policy for all sockets of a child process, and a limit for what they receive.

It covers drivers in pure Python: every connection they open, by name, by address or after a redirect, is checked here.
A name is resolved once, and the connection goes to an address that was checked. Drivers with their own network stack
use `guarded_proxy` instead.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from noetl.base.addresses.policy import AddressPolicy, literal

_REAL_LOOKUP = socket.getaddrinfo
_REAL_CONNECT = socket.socket.connect
_REAL_CONNECT_EX = socket.socket.connect_ex


_RECEIVING_CLASSES = (socket.socket, ssl.SSLSocket)  # the second reads through TLS, past the methods of the first


class BlockedConnectionError(PermissionError):
    """The policy forbids this address."""


class ReceivedTooMuchError(ConnectionAbortedError):
    """The limit of received bytes is used up."""


class GuardedSockets:
    """The policy of this process. `refusal` is why the last connection was refused: drivers often hide the reason.
    `left` is how many bytes may still be received; None: any number."""

    def __init__(self, policy: AddressPolicy) -> None:
        self.policy = policy
        self.refusal: str | None = None
        self.left: int | None = None
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

    def limit_received(self) -> None:
        """Count what every socket of this process receives against `left`, from now on. A frame that a server announces
        is held by its driver until it is complete, however long it is."""
        for kind in _RECEIVING_CLASSES:
            kind.recv = self._counted(kind.recv)  # type: ignore[method-assign]
            kind.recv_into = self._counted(kind.recv_into)  # type: ignore[method-assign]

    def _counted(self, receive: Callable[..., Any]) -> Any:
        def counted(own: socket.socket, *arguments: Any, **options: Any) -> Any:
            if self.left is not None and self.left < 0:
                raise ReceivedTooMuchError("more was received than is allowed")
            received = receive(own, *arguments, **options)
            if self.left is not None:
                self.left -= received if isinstance(received, int) else len(received)
            return received

        return counted

    @property
    def is_used_up(self) -> bool:
        """Whether more was received than `left` allowed."""
        return self.left is not None and self.left < 0

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
