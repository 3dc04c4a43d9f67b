"""Attack: brokers, databases and other servers whose answers never end, or are larger than what was asked for."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from noetl.templates.sql.binding import read
from noetl.tools.contract import Tool
from noetl.tools.mcp import McpTool
from noetl.tools.messaging.tool import KafkaTool, MqttTool, RedisTool
from noetl.tools.nats import NatsTool
from noetl.tools.postgres.tool import PostgresTool
from noetl.tools.sql.tool import SqlTool
from noetl.tools.storage.tool import StorageTool
from tests.security.listeners import serving
from tests.tools.sql_tasks import outcome_of

MIB = 1 << 20
# Far more than a child may take: a test that fails does not fill the machine.
FLOOD_MIB = 400


async def flood(writer: asyncio.StreamWriter, sent: list[int]) -> None:
    for _ in range(FLOOD_MIB):
        writer.write(b"x" * MIB)
        await writer.drain()
        sent[0] += 1


async def redis(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    while asked := await reader.read(MIB):
        if b"\r\nGET\r\n" in asked:
            writer.write(b"$%d\r\n" % (FLOOD_MIB * MIB))
            await flood(writer, sent)
        else:
            writer.write(b"%0\r\n" if b"HELLO" in asked else b"+OK\r\n" * asked.count(b"*"))


async def mqtt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.read(MIB)
    writer.write(b"\x20\x03\x00\x00\x00")  # the login is accepted
    asked = await reader.read(MIB)
    writer.write(b"\x90\x04" + asked[2:4] + b"\x00\x00")  # so is the subscription
    size = 4 * MIB
    head = b"\x30" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    for _ in range(FLOOD_MIB // 4):
        writer.write(head + b"\x00\x01t\x00" + b"x" * (size - 4))
        await writer.drain()
        sent[0] += 4


async def kafka(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.readexactly(4)
    writer.write(struct.pack(">i", FLOOD_MIB * MIB))
    await flood(writer, sent)


@asynccontextmanager
async def flooding(broker: Callable[..., Awaitable[None]]) -> AsyncIterator[tuple[int, list[int]]]:
    """The port of a broker, and how many MiB it has sent."""
    sent = [0]
    async with serving(lambda reader, writer: broker(reader, writer, sent)) as port:
        yield port, sent


CASES: list[tuple[type[Tool], Callable[..., Awaitable[None]], dict[str, Any]]] = [
    (RedisTool, redis, {"op": "get", "key": "k"}),
    (MqttTool, mqtt, {"op": "receive", "topic": "t", "limit": 10_000, "wait": "30s"}),
    (KafkaTool, kafka, {"op": "consume", "topic": "t"}),
]


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize(("kind", "broker", "inputs"), CASES, ids=["redis", "mqtt", "kafka"])
async def test_no_more_is_taken_from_a_broker_than_a_result_can_hold(
    kind: type[Tool], broker: Callable[..., Awaitable[None]], inputs: dict[str, Any]
) -> None:
    tool = kind()
    try:
        async with flooding(broker) as (port, sent):
            auth = {"host": "127.0.0.1", "port": port, "tls": False}
            outcome = await outcome_of(tool, {**inputs, "auth": auth})
    finally:
        await tool.close()

    assert outcome.error is not None
    assert outcome.error.kind == "result.too_large", outcome.error
    assert "the broker sent more than 128 MiB; ask for less" in outcome.error.message
    assert sent[0] < 200  # a part of it was in the buffers of the system


MCP_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def endless_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(MCP_HEAD + b'\r\n{"jsonrpc": "')
    await flood(writer, sent)


async def compressed_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(MCP_HEAD + b"Content-Encoding: gzip\r\n\r\n")
    packer = zlib.compressobj(wbits=31)
    for _ in range(FLOOD_MIB):
        writer.write(packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH))
        await writer.drain()
        sent[0] += 1


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize(
    ("server", "message"),
    [
        (endless_answer, "sent more than 128 MiB"),
        (compressed_answer, "sent a compressed answer, which was not asked for"),
    ],
)
async def test_no_more_is_taken_from_an_mcp_server_than_a_result_can_hold(
    server: Callable[..., Awaitable[None]], message: str
) -> None:
    tool = McpTool()
    try:
        async with flooding(server) as (port, sent):
            inputs = {"server": f"http://127.0.0.1:{port}/mcp", "tool": "t"}
            outcome = await outcome_of(tool, inputs, spec={"timeout": "60s"})
    finally:
        await tool.close()

    assert outcome.error is not None
    assert message in outcome.error.message, outcome.error
    assert sent[0] < 200


async def mysql(_: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    """Its greeting is one packet that goes on in the next, and so on."""
    part = 0xFFFFFF
    for number in range(FLOOD_MIB // 16 * 2):
        writer.write(part.to_bytes(3, "little") + bytes([number % 256]) + b"x" * part)
        await writer.drain()
        sent[0] += 16


@pytest.mark.req("TOOL-04")
@pytest.mark.skipif(find_spec("pymysql") is None, reason="NO PYMYSQL: its answers were not tested")
async def test_no_more_is_taken_from_a_database_than_a_result_can_hold() -> None:
    tool = SqlTool()
    try:
        async with flooding(mysql) as (port, sent):
            auth = {"host": "127.0.0.1", "port": port, "user": "u", "password": "p", "database": "d"}
            outcome = await outcome_of(tool, {"dialect": "mysql", "command": read("SELECT 1"), "auth": auth})
    finally:
        await tool.close()

    assert outcome.error is not None
    assert outcome.error.kind == "result.too_large", outcome.error
    assert "the database sent more than 256 MiB: ask for less" in outcome.error.message
    assert sent[0] < 400


async def nats_message(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await _nats(reader, writer, sent, b"MSG %b 1 " + b"%d\r\n" % (FLOOD_MIB * MIB))


async def nats_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await _nats(reader, writer, sent, b"MSG %b")


async def _nats(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int], head: bytes) -> None:
    writer.write(b'INFO {"server_id": "x", "version": "2.10.0", "max_payload": 1048576, "headers": true}\r\n')
    while asked := await reader.read(MIB):
        if b"PING" in asked:
            writer.write(b"PONG\r\n")
        if b"PUB " in asked:
            writer.write(head % asked.partition(b"PUB ")[2].split(b" ")[1])
            await flood(writer, sent)


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize(("broker", "what"), [(nats_message, "a message"), (nats_line, "a line")])
async def test_a_worker_holds_no_endless_message_or_line_of_nats(
    broker: Callable[..., Awaitable[None]], what: str
) -> None:
    """The client of NATS is in the worker itself, so there is no child process whose memory could be limited."""
    tool = NatsTool()
    try:
        async with flooding(broker) as (port, sent):
            inputs = {"op": "request", "subject": "s", "payload": "x", "auth": f"nats://127.0.0.1:{port}"}
            outcome = await outcome_of(tool, inputs, spec={"timeout": "3s"})
    finally:
        await tool.close()

    assert outcome.error is not None
    assert outcome.error.kind == "result.too_large", outcome.error
    assert f"the broker sent {what} of more than" in outcome.error.message
    assert sent[0] < 32


async def postgres_greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.read(MIB)
    writer.write(b"R" + struct.pack(">i", 0x7FFFFFFF))
    await flood(writer, sent)


async def postgres_rows(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.read(MIB)
    writer.write(b"R" + struct.pack(">ii", 8, 0))
    for setting in (b"server_version\x0016.0\x00", b"client_encoding\x00UTF8\x00"):
        writer.write(b"S" + struct.pack(">i", 4 + len(setting)) + setting)
    writer.write(b"Z" + struct.pack(">i", 5) + b"I")
    await reader.read(MIB)
    writer.write(b"D" + struct.pack(">i", 0x7FFFFFFF))
    await flood(writer, sent)


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize("server", [postgres_greeting, postgres_rows])
async def test_a_worker_holds_no_endless_message_of_postgresql(server: Callable[..., Awaitable[None]]) -> None:
    """Its driver is in the worker itself too."""
    tool = PostgresTool()
    try:
        async with flooding(server) as (port, sent):
            auth = {"host": "127.0.0.1", "port": port, "user": "u", "password": "p", "sslmode": "disable"}
            outcome = await outcome_of(tool, {"command": read("SELECT 1"), "auth": auth})
    finally:
        await tool.close()

    assert outcome.error is not None
    assert outcome.error.kind == "result.too_large", outcome.error
    assert "the server sent more than 256 MiB: ask for less" in outcome.error.message
    assert sent[0] < 350


async def endless_listing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n<ListBucketResult><Name>")
    await flood(writer, sent)


async def endless_error(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\n\r\n<Error>")
    await flood(writer, sent)


async def endless_pages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[int]) -> None:
    """Each page is a short answer, and says that another one follows."""
    await reader.readuntil(b"\r\n\r\n")
    size = 8 * MIB
    folder = b"<CommonPrefixes><Prefix>" + b"p" * 900 + b"/</Prefix></CommonPrefixes>"
    more = b"true" if sent[0] < FLOOD_MIB else b"false"  # a test that fails must end
    page = b"<ListBucketResult><NextContinuationToken>t</NextContinuationToken><IsTruncated>%b</IsTruncated>" % more
    page += folder * (size // len(folder)) + b"</ListBucketResult>"
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
    await writer.drain()
    sent[0] += size // MIB


IN_ONE_ANSWER = "127.0.0.1 sent more than 65 MiB in one answer"


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize(
    ("store", "inputs", "message"),
    [
        (endless_listing, {"op": "list"}, IN_ONE_ANSWER),
        (endless_error, {"op": "get", "url": "s3://bucket/key"}, IN_ONE_ANSWER),
        (endless_pages, {"op": "list", "recursive": False}, "127.0.0.1 sent more than 256 MiB"),
        (endless_error, {"op": "copy", "url": "s3://bucket/key", "target": "file:x"}, IN_ONE_ANSWER),
        (endless_error, {"op": "copy", "url": "file:here", "target": {"url": "s3://bucket/key"}}, IN_ONE_ANSWER),
    ],
)
async def test_no_more_is_taken_from_an_object_store_than_a_result_can_hold(
    store: Callable[..., Awaitable[None]], inputs: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "here").write_text("a file")
    tool = StorageTool()
    try:
        async with flooding(store) as (port, sent):
            auth = {"endpoint": f"http://127.0.0.1:{port}", "access_key_id": "k", "secret_access_key": "canary-77"}
            if isinstance(target := inputs.get("target"), dict):
                target["auth"] = auth
            outcome = await outcome_of(
                tool, {"url": "s3://bucket", "auth": auth, **inputs}, data_folders=(str(tmp_path),)
            )
    finally:
        await tool.close()

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("result.too_large", message)
    assert sent[0] < FLOOD_MIB
