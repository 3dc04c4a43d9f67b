"""Doorbells of every kind, linked in pairs: what one of them rings, the other hears."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

from noetl.store.wakeups.contract import MemoryWakeups, Wakeups
from noetl.store.wakeups.linked import LinkedWakeups
from noetl.store.wakeups.nats import nats_dispatch
from noetl.store.wakeups.postgres import postgres_dispatch
from tests.servers import nats, postgres

KINDS = ("memory", "postgres", "nats")
LINKED = ("postgres", "nats")


@asynccontextmanager
async def bells(kind: str, number: int = 2) -> AsyncIterator[list[Wakeups]]:
    """So many bells of one installation; in memory they are one."""
    if kind == "memory":
        wakeups = MemoryWakeups()
        yield [wakeups] * number
        return
    async with AsyncExitStack() as stack:
        made: list[Wakeups] = []
        channel = f"c{uuid4().hex[:8]}"
        for _ in range(number):
            bell_ = _linked(kind, channel)
            await bell_.open()
            stack.push_async_callback(bell_.close)
            await bell_.linked()
            made.append(bell_)
        yield made


def _linked(kind: str, channel: str) -> LinkedWakeups:
    if kind == "nats":
        return nats_dispatch(nats.server().url)
    return postgres_dispatch(postgres.server().auth("postgres"), channel=channel)
