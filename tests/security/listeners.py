"""Local ports as targets of attacks, and the received requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[int]:
    """A port of this machine; open connections are closed at the end."""
    running: set[asyncio.Task[Any]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await handle(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            running.discard(task)

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        left = list(running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A port of this machine, and what came in there."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(64))

    async with serving(hear) as port:
        yield port, heard
