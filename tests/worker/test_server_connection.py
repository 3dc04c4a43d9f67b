"""The connection to a server: a repeated request after a lost answer names the orders that the worker holds
(WRK-03)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from noetl.events.orders import TurnAnswer
from noetl.worker.leases import HeldLeases
from noetl.worker.remote_control_plane import DOUBT_S, RemoteControlPlane
from noetl.worker.remote_values import RemoteValues
from noetl.worker.server_connection import ServerConnection
from tests.worker.orders import an_order
from tests.worker.scripted_server import Script, Server, plain

NOTHING = plain(msgspec.json.encode(TurnAnswer()))


def holdings(server: Server) -> list[dict[str, int] | None]:
    """What each request said that the worker holds."""
    return [msgspec.json.decode(asked.partition(b"\r\n\r\n")[2])["holding"] for asked in server.asked]


async def asked(script: Script, polls: int, uptime_s: list[float]) -> Server:
    """A worker that holds an order asks for others, so many times."""
    server = Server(script)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    line = ServerConnection(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", None)
    leases = HeldLeases(monotonic=lambda: uptime_s[0])
    leases.receive(an_order("a", order_id="o1"))
    control_plane = RemoteControlPlane(line, RemoteValues(line, pytest.fail, "w"), worker_id="w", leases=leases)
    try:
        for _ in range(polls):
            await control_plane.poll(1)
    finally:
        await line.close()
        listening.close()
        await asyncio.gather(*server.serving)
    return server


@pytest.mark.req("WRK-03", "WRK-06")
async def test_a_request_repeated_on_a_new_connection_lists_the_held_orders() -> None:
    server = await asked(lambda connection, request, _: NOTHING if connection or not request else None, 2, [0.0])

    assert holdings(server) == [None, None, {"o1": 1}]


@pytest.mark.req("WRK-03")
async def test_requests_list_held_orders_until_no_lost_request_can_be_pending() -> None:
    """The lost request may be carried out after its repetition was answered: a poll that waits at the server, say."""
    uptime_s = [0.0]

    def script(connection: int, request: int, _: bytes) -> bytes | None:
        if len(uptime_s) < 2 and not connection and request == 1:
            return None
        if connection == 1 and request == 1:
            uptime_s[0] += DOUBT_S
        return NOTHING

    server = await asked(script, 4, uptime_s)

    assert holdings(server) == [None, None, {"o1": 1}, {"o1": 1}, None]


async def test_a_request_that_was_never_sent_is_simply_sent() -> None:
    """Nobody was there: the server cannot have done anything."""
    listening = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    server = Server(lambda c, r, a: NOTHING)

    async def begin(_: float) -> None:
        nonlocal listening
        listening = await asyncio.start_server(server.serve, "127.0.0.1", port)

    line = ServerConnection(f"http://127.0.0.1:{port}", None, sleep=begin)
    again = list[bool]()

    def resent() -> bytes:
        again.append(True)
        return b"{}"

    reply = await line.ask("POST", "/turn", body=b'{"holding": null}', again=resent)
    await line.close()
    listening.close()
    await asyncio.gather(*server.serving)

    assert reply.status == 200
    assert again == []
