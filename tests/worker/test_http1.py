"""The HTTP connection between a worker and its server: it is kept open, and each answer belongs to its request
(WRK-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from noetl.worker.http1 import HttpConnection, HttpConnectionError
from tests.worker.scripted_server import UNENDING, Script, Server, plain


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[tuple[Server, HttpConnection]]:
    server = Server(script)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    wire = HttpConnection(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/below", {"Noetl-Protocol": "1"})
    try:
        yield server, wire
    finally:
        await wire.close()
        listening.close()
        await asyncio.gather(*server.serving)


async def ask(wire: HttpConnection, body: bytes | None = b"{}") -> bytes:
    reply = await wire.ask("POST", "/turn", body=body, media_type="application/json", timeout_s=60)
    return reply.content


async def test_one_connection_serves_consecutive_requests() -> None:
    async with serving(lambda c, n, asked: plain(b"%d" % n)) as (server, wire):
        assert [await ask(wire) for _ in range(3)] == [b"0", b"1", b"2"]
        assert server.connections == 1
        assert server.asked[0].startswith(b"POST /below/turn HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"\r\nNoetl-Protocol: 1\r\n" in server.asked[0]


async def test_concurrent_requests_use_separate_connections() -> None:
    async with serving(lambda c, n, asked: plain(asked[-1:])) as (server, wire):
        first, second = await asyncio.gather(ask(wire, b"a"), ask(wire, b"b"))
        assert (first, second) == (b"a", b"b")
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"hello"),
        plain(b"hello", "Connection: close"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + plain(b"hello"),
        b"HTTP/1.1 200\r\ncontent-LENGTH:5\r\n\r\nhello",
    ],
    ids=["length", "close", "chunked", "informed", "terse"],
)
async def test_a_response_is_read_with_any_framing(answer: bytes) -> None:
    async with serving(lambda c, n, asked: answer) as (_, wire):
        assert [await ask(wire), await ask(wire)] == [b"hello", b"hello"]


async def test_a_response_without_a_length_ends_with_its_connection() -> None:
    async with serving(lambda c, n, asked: UNENDING + b"hello") as (server, wire):
        assert [await ask(wire), await ask(wire)] == [b"hello", b"hello"]
        assert server.connections == 2


async def test_a_broken_reused_connection_is_reported_and_the_request_sent_once() -> None:
    """The server may have done what was asked, and only its answer be lost: who sends it again may have to say more."""

    def script(connection: int, request: int, asked: bytes) -> bytes | None:
        return plain(b"%d" % connection) if request == 0 else None

    async with serving(script) as (server, wire):
        assert await ask(wire) == b"0"
        with pytest.raises(HttpConnectionError) as told:
            await ask(wire)
        assert (told.value.was_sent, told.value.was_idle) == (True, True)
        assert await ask(wire) == b"1"
        assert server.connections == 2


async def test_a_broken_new_connection_is_reported() -> None:
    async with serving(lambda c, n, asked: None) as (server, wire):
        with pytest.raises(HttpConnectionError, match="closed before the answer"):
            await ask(wire)
        assert server.connections == 1, "when to try again is not its business"


async def test_a_partial_response_is_reported_and_the_request_not_repeated() -> None:
    """The request may have been carried out: whoever sends it again must know."""

    def script(connection: int, request: int, asked: bytes) -> bytes | None:
        return plain(b"whole") if request == 0 else UNENDING[:-2] + b"Content-Length: 10\r\n\r\nhalf"

    async with serving(script) as (server, wire):
        assert await ask(wire) == b"whole"
        with pytest.raises(HttpConnectionError):
            await ask(wire)
        assert server.connections == 1


async def test_a_response_that_is_not_http_is_reported() -> None:
    async with serving(lambda c, n, asked: b"SSH-2.0\r\n\r\n") as (_, wire):
        with pytest.raises(HttpConnectionError, match="is not HTTP"):
            await ask(wire)


async def test_a_timeout_is_reported_and_the_connection_closed() -> None:
    async with serving(lambda c, n, asked: b"" if c == 0 else plain(b"late")) as (server, wire):
        with pytest.raises(HttpConnectionError, match=r"no answer within 0\.05 s"):
            await wire.ask("POST", "/turn", body=b"", timeout_s=0.05)
        assert await ask(wire) == b"late"
        assert server.connections == 2


async def test_an_unreachable_server_is_reported() -> None:
    async with serving(lambda c, n, asked: None) as (_, wire):
        pass
    with pytest.raises(HttpConnectionError) as told:
        await ask(wire)
    assert not told.value.was_sent
