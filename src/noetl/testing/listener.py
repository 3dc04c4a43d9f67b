"""A server that speaks no protocol, for tests of tools that connect: it says nothing, or one fixed answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_CLOSING_S = 0.01  # the loop closes sockets a turn after it was told to


class Listener:
    """On a free port of loopback. `answer` is sent to whoever connects, who is then hung up on; without one it is
    silent, and waits for the other side to hang up."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.answer = answer
        self.port = self.connections = 0
        self.accepted, self.left = asyncio.Event(), asyncio.Event()
        self.open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        self.accepted.set()
        with suppress(OSError):
            if self.answer is None:
                while await reader.read(1 << 16):
                    pass
            else:
                writer.write(self.answer)
                await writer.drain()
        self.left.set()
        self.open.discard(writer)
        writer.close()


@asynccontextmanager
async def listening(answer: bytes | None = None) -> AsyncIterator[Listener]:
    listener = Listener(answer)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for writer in listener.open:
            writer.transport.abort()  # whoever has not hung up is cut off
        await asyncio.sleep(_CLOSING_S)
