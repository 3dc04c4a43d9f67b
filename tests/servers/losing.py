"""A connection between a worker and its server that drops responses after the request was processed."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any
from urllib.parse import urlsplit

TURN = b"POST /api/orders/turn"
_BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)


class LosingLine:
    """A proxy in a thread of its own. Of answers to turns it loses the part `chance`, by `seed`: the connection ends
    before the first byte or, where it is `silent`, stays open and carries nothing any more, as when a machine is gone
    without a word."""

    def __init__(self, there: str, *, chance: float, seed: int = 1, silent: bool = False) -> None:
        parts = urlsplit(there)
        self._host, self._port = str(parts.hostname), parts.port
        self.chance, self._chosen, self._is_silent = chance, random.Random(seed), silent
        self.lost = self.lost_orders = 0  # answers, and those of them that had orders inside
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> LosingLine:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *how: Any) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        listening = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._over.wait()
        listening.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        try:
            answers, there = await asyncio.open_connection(self._host, self._port, limit=1 << 24)
            while True:
                request = await _message(reader)
                there.write(request)
                answer = await _message(answers)
                if request.startswith(TURN) and self._chosen.random() < self.chance:
                    self.lost += 1
                    self.lost_orders += b'"lease_epoch"' in answer
                    if self._is_silent:
                        await self._over.wait()
                    return
                writer.write(answer)
                await writer.drain()
        except (*_BROKEN, asyncio.CancelledError):
            pass  # a connection that ends, or the proxy
        finally:
            writer.close()
            if there is not None:
                there.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A request or an answer, whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.partition(b":")[2]))
    return head
