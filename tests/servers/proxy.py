"""A TCP proxy for tests: a line between two processes that can be slow, silent in one direction or both, or cut.

A line that is silent loses nothing by itself, as TCP does not: sent data arrives when the connection resumes, if the
sender has not given up by then.

    with Proxy("127.0.0.1", 4222) as line:
        …  # line.port
        with line.silent("there"): …
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

THERE, BACK = "there", "back"
BOTH = (THERE, BACK)
_CHUNK = 1 << 16


class Proxy:
    """To `host` and `port`, or to a Unix socket. `delay_s` and `rate` (bytes in a second) hold for each direction."""

    def __init__(self, host: str, port: int = 0) -> None:
        self._host, self._to = host, port
        self.port = 0
        self.delay_s = 0.0
        self.rate: int | None = None
        self.is_down = False
        self.connections = self.carried = 0
        self._speaks: dict[str, asyncio.Event] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready, self._over = threading.Event(), asyncio.Event()

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *how: Any) -> None:
        self._tell(self._over.set)
        self._thread.join(10)

    # The faults.

    @contextmanager
    def silent(self, *directions: str) -> Iterator[None]:
        """Nothing arrives in these directions for as long as the block lasts."""
        for one in directions:
            self._tell(self._speaks[one].clear)
        try:
            yield
        finally:
            for one in directions:
                self._tell(self._speaks[one].set)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Every connection is cut, and none can be had."""
        self.is_down = True
        self.cut()
        try:
            yield
        finally:
            self.is_down = False

    def cut(self) -> None:
        """Every connection there is."""
        self._tell(self._abort)

    def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def flap(self, seconds: float, *, every_s: float = 0.3) -> None:
        """Down and up again, for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self.down():
                time.sleep(every_s)
            time.sleep(every_s)

    def _tell(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)

    # In its thread.

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._listening())
        finally:
            self._loop.close()

    async def _listening(self) -> None:
        for one in BOTH:
            self._speaks[one] = asyncio.Event()
            self._speaks[one].set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = int(server.sockets[0].getsockname()[1])
        self._ready.set()
        await self._over.wait()
        server.close()
        pumps = asyncio.all_tasks() - {asyncio.current_task()}
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        self.connections += 1
        try:
            if Path(self._host).is_absolute():
                answers, requests = await asyncio.open_unix_connection(self._host)
            else:
                answers, requests = await asyncio.open_connection(self._host, self._to)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, requests}
        self._writers |= both
        try:
            await asyncio.gather(self._pump(reader, requests, THERE), self._pump(answers, writer, BACK))
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK if self.rate is None else 1024):
                pause_s = self.delay_s + (len(data) / self.rate if self.rate else 0.0)
                if pause_s:
                    await asyncio.sleep(pause_s)
                await self._speaks[direction].wait()
                writer.write(data)
                self.carried += len(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
