"""Live streams of a server as a test reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec


class Heard(msgspec.Struct):
    name: str
    at: str | None
    data: Any


async def heard(answer: httpx2.Response) -> AsyncIterator[Heard]:
    """The events of a stream; comments are returned as `comment`."""
    name, at, data = "message", None, None
    async for line in answer.aiter_lines():
        field, _, value = line.partition(": ")
        match field:
            case "event":
                name = value
            case "id":
                at = value
            case "data":
                data = msgspec.json.decode(value)
            case "" if value:
                yield Heard("comment", None, value)
            case "" if data is not None:
                yield Heard(name, at, data)
                name, at, data = "message", None, None


@asynccontextmanager
async def streaming(client: httpx2.AsyncClient, url: str, **more: Any) -> AsyncIterator[AsyncIterator[Heard]]:
    async with client.stream("GET", url, **more) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield heard(answer)
