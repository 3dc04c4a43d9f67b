"""Sockets of a child process connect only where the address policy allows, also by a name."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from noetl.base.addresses.policy import CLOSED, OPEN, AddressPolicy
from noetl.tools import guarded_sockets
from noetl.tools.guarded_sockets import BlockedConnectionError, GuardedSockets

NAME = "database.invalid"  # no resolver knows it: only the lookup below does


def guard(monkeypatch: pytest.MonkeyPatch, policy: AddressPolicy) -> GuardedSockets:
    """Guarded sockets in this process, until the test ends. The name resolves to this machine, once."""

    def lookup(host: str, port: int, *_: Any) -> list[Any]:
        assert host == NAME
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(guarded_sockets, "_REAL_LOOKUP", lookup)
    monkeypatch.setattr(socket, "getaddrinfo", socket.getaddrinfo)
    for method in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, method, getattr(socket.socket, method))
    sockets = GuardedSockets(policy)
    sockets.install()
    return sockets


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_a_socket_connects_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        guard(monkeypatch, OPEN)

        getattr(client, method)((NAME, server.getsockname()[1]))

        assert client.getpeername() == server.getsockname()


def test_a_name_with_a_forbidden_address_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        sockets = guard(monkeypatch, CLOSED)

        with pytest.raises(BlockedConnectionError):
            client.connect((NAME, server.getsockname()[1]))

    assert sockets.refusal is not None
    assert sockets.refusal.startswith(f"{NAME} is blocked: it is at 127.0.0.1")
