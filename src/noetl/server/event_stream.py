"""Event streams: server-sent events to one reader, with a comment now and then so that nobody on the way gives up.

A reader that does not take what it is sent is let go; nobody waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
COMMENT = b": still here\n\n"


def event_bytes(data: Any, *, at: str | None = None, name: str | None = None) -> bytes:
    """One event. `at` is what the reader says when it comes back."""
    lines = [f"id: {at}"] if at is not None else []
    lines += [f"event: {name}"] if name is not None else []
    text = msgspec.json.encode(data).decode()  # has no line break of its own
    return ("\n".join([*lines, f"data: {text}"]) + "\n\n").encode()


class EventStream(Response):
    """`parts` are written as they come; None among them stands for a comment. `counted` hears +1 and -1."""

    media_type = MEDIA_TYPE

    def __init__(self, parts: AsyncIterator[bytes | None], *, patience_s: float, counted: Callable[[int], Any]) -> None:
        super().__init__(None, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._parts, self._patience_s, self._counted = parts, patience_s, counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._counted(1)
        writing = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.wait({writing, leaving})
            self._counted(-1)
        if not writing.cancelled() and (problem := writing.exception()) is not None:
            raise problem

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with aclosing(self._parts) as parts:  # type: ignore[type-var]
                async for part in parts:
                    async with asyncio.timeout(self._patience_s):
                        body = COMMENT if part is None else part
                        await send({"type": "http.response.body", "body": body, "more_body": True})
        except TimeoutError:
            return  # it does not read
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
