"""Brokers of Kafka's protocol for tests. No package index has a real one, so there are two stand-ins:

- the mock cluster of librdkafka, the C library under Confluent's client: topics, offsets, groups, in another process;
- one that only greets: it judges a login and lists no topic. Its answers are made with the codec of aiokafka.
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from aiokafka.protocol.admin import SaslHandShakeResponse_v1
from aiokafka.protocol.metadata import MetadataResponse_v1

from tests.servers.at_end import stop_at_end

# Ends with its parent in any case.
_MOCK = """
import sys
from confluent_kafka import Producer
cluster = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": "1", "log_level": "0"})
(broker,) = cluster.list_topics(timeout=300).brokers.values()
print(broker.port, flush=True)
sys.stdin.read()
"""
METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
REFUSED = 58


class MockCluster:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        stop_at_end(self.stop)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@cache
def mock_cluster() -> MockCluster:
    return MockCluster()


@asynccontextmanager
async def greeting_broker(user: str, password: str, advertised: str = "127.0.0.1") -> AsyncIterator[int]:
    """A broker that takes one login, by PLAIN, and sends its clients to `advertised`; its port."""
    port = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, _, number = struct.unpack(">hhi", request[:8])
                body = _answer(key, request, f"\0{user}\0{password}".encode(), (advertised, port))
                writer.write(struct.pack(">ii", len(body) + 4, number) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield port
    server.close()


def _answer(key: int, request: bytes, login: bytes, advertised: tuple[str, int]) -> bytes:
    match key:
        case 18:
            known = [(METADATA, 0, 1), (HANDSHAKE, 1, 1), (VERSIONS, 0, 0), (AUTHENTICATE, 0, 0)]
            return struct.pack(">hi", 0, len(known)) + b"".join(struct.pack(">hhh", *one) for one in known)
        case 17:
            return bytes(SaslHandShakeResponse_v1(0, ["PLAIN"]).encode())
        case 36:
            code = 0 if login in request else REFUSED
            return struct.pack(">h", code) + struct.pack(">h", -1) + struct.pack(">i", 0)
        case _:
            brokers: list[Any] = [(1, *advertised, None)]
            return bytes(MetadataResponse_v1(brokers, 1, []).encode())
