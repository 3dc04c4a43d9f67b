"""Bounds of an http task: time, size, and an end that leaves nothing open (TOOL-04, reliability.md §2.5)."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import zlib
from collections.abc import Iterator

import pytest

from noetl.tools.http import tool as tool_module
from tests.servers.http import HttpServer, reply
from tests.tools.http_requesting import context, failing, get, http_tool

MIB = 1024 * 1024
EMPTY_BLOCK = b"\x00\x00\x00\xff\xff"  # of deflate: stored, no bytes, not the last one


@pytest.mark.req("TOOL-04", "SPEC-05")
@pytest.mark.parametrize(
    ("timeout", "message"),
    [
        ({"connect": 5, "read": 0.05}, "got no answer in time: nothing was received for 0.05 s (timeout.read)"),
        ({"total": 0.05}, "took longer than 0.05 s"),
        (0.05, "took longer than 0.05 s"),
        ("50ms", "took longer than 0.05 s"),
    ],
    ids=str,
)
async def test_an_endpoint_that_does_not_answer_times_out(timeout: object, message: str) -> None:
    async with HttpServer({"/a": reply(hang=True)}) as server:
        error = await failing(f"{server.url}/a", spec={"timeout": timeout})

    assert (error.kind, error.retryable) == ("timeout", True)
    assert error.message == f"GET {server.url}/a {message}"


def endless(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


async def test_an_endless_body_is_stopped_at_the_cap_and_its_connection_closed() -> None:
    async with HttpServer({"/a": reply(chunks=endless(b"x" * 65_536))}) as server:
        error = await failing(f"{server.url}/a", spec={"max_bytes": MIB})
        await asyncio.to_thread(server.abandoned.wait, 60)

    assert error.kind == "result.too_large"
    assert error.message.endswith("gave a body of more than 1,048,576 bytes, and spec.max_bytes allows 1,048,576")
    assert server.abandoned.is_set()


async def test_a_body_declared_over_the_cap_is_not_read() -> None:
    async with HttpServer({"/a": reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")}) as server:
        error = await failing(f"{server.url}/a")

    assert error.kind == "result.too_large"
    assert "gave a body of 99,999,999,999 bytes" in error.message


async def test_a_body_within_the_cap_is_read_to_its_last_byte() -> None:
    body = b"y" * (3 * MIB)
    async with HttpServer({"/a": reply(body=body, headers={"Content-Type": "text/plain"})}) as server:
        found = await get(f"{server.url}/a", spec={"max_bytes": len(body)})
        error = await failing(f"{server.url}/a", spec={"max_bytes": len(body) - 1})

    assert len(found.result["data"]) == len(body)
    assert error.kind == "result.too_large"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity, gzip"])
async def test_a_body_that_decompresses_a_hundredfold_is_refused(coding: str) -> None:
    bomb = b"\x00" * (20 * MIB)
    bomb = zlib.compress(bomb) if coding == "deflate" else gzip.compress(bomb)
    async with HttpServer({"/a": reply(body=bomb, headers={"Content-Encoding": coding})}) as server:
        error = await failing(f"{server.url}/a")

    assert error.kind == "result.too_large"
    assert error.message.endswith("gave a body that grows more than 100 times when it is decompressed")


async def test_a_body_that_is_compressed_several_times_is_refused_before_any_layer_is_opened() -> None:
    """The layer inside is as large as one likes, and comes to nothing: no size that is counted is ever exceeded."""
    nothing = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + EMPTY_BLOCK * MIB
    async with HttpServer(
        {"/a": reply(body=gzip.compress(nothing), headers={"Content-Encoding": "gzip, gzip"})}
    ) as server:
        error = await failing(f"{server.url}/a")

    assert error.kind == "result.too_large"
    assert error.message.endswith("gave a body that is compressed 2 times, and one time is allowed")


async def test_the_cap_counts_compressed_bytes_that_come_to_nothing() -> None:
    """A gzip stream of empty blocks goes on for ever and has no content."""
    pieces = itertools.chain([b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"], endless(EMPTY_BLOCK * 10_000))
    async with HttpServer({"/a": reply(chunks=pieces, headers={"Content-Encoding": "gzip"})}) as server:
        error = await failing(f"{server.url}/a", spec={"max_bytes": MIB, "timeout": 20})
        await asyncio.to_thread(server.abandoned.wait, 60)

    assert error.kind == "result.too_large"
    assert error.message.endswith("gave a body of more than 1,048,576 bytes, and spec.max_bytes allows 1,048,576")


async def test_the_cap_counts_what_is_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_module, "MAX_RATIO", 10**9)
    body = gzip.compress(b"\x00" * (4 * MIB))
    async with HttpServer({"/a": reply(body=body, headers={"Content-Encoding": "gzip"})}) as server:
        error = await failing(f"{server.url}/a", spec={"max_bytes": 2 * MIB})

    assert "more than 2,097,152 bytes" in error.message


async def test_a_small_body_may_have_any_compression_ratio() -> None:
    body = gzip.compress(b'{"a": "' + b" " * 200_000 + b'"}')
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    async with HttpServer({"/a": reply(body=body, headers=headers)}) as server:
        found = await get(f"{server.url}/a")

    assert len(found.result["data"]["a"]) == 200_000


async def test_a_body_that_contradicts_its_encoding_is_an_error() -> None:
    async with HttpServer({"/a": reply(body=b"no gzip", headers={"Content-Encoding": "gzip"})}) as server:
        error = await failing(f"{server.url}/a")

    assert (error.kind, error.details["code"]) == ("http.transport", "decoding")


@pytest.mark.parametrize("path", ["/hang", "/dribble"])
async def test_a_cancelled_request_closes_its_connection_at_once(path: str) -> None:
    """A cancelled execution must not go on reading, or hold what it read (WRK)."""
    routes = {"/hang": reply(hang=True), "/dribble": reply(chunks=endless(b"x" * 1_024))}
    async with HttpServer(routes) as server, http_tool() as tool:
        running = asyncio.ensure_future(tool.run({"url": f"{server.url}{path}"}, context({"max_bytes": 2**40})))
        await server.came()

        running.cancel()
        await asyncio.wait({running})

        assert running.cancelled()
        assert await asyncio.to_thread(server.abandoned.wait, 60)


async def test_a_tool_works_after_a_cancelled_request() -> None:
    async with HttpServer({"/hang": reply(hang=True), "/a": reply(json=1)}) as server, http_tool() as tool:
        running = asyncio.ensure_future(tool.run({"url": f"{server.url}/hang"}, context()))
        await server.came()
        running.cancel()
        await asyncio.wait({running})

        found = await tool.run({"url": f"{server.url}/a"}, context())

    assert found.result["data"] == 1


async def test_concurrent_requests_get_their_own_responses() -> None:
    async with HttpServer({"*": lambda request: reply(json=request.query)}) as server, http_tool() as tool:
        urls = [f"{server.url}/?n={n}" for n in range(100)]
        found = await asyncio.gather(*(tool.run({"url": url}, context()) for url in urls))

    assert [one.result["data"]["n"] for one in found] == [str(n) for n in range(100)]
