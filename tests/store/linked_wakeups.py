"""Wake-ups of every kind, linked in pairs: a wake-up sent through one reaches the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

from noetl.store.nats_wakeups import nats_dispatch
from noetl.store.wakeups import LinkedWakeups, MemoryWakeups, Wakeups, postgres_dispatch
from tests.servers import nats, postgres

KINDS = ("memory", "postgres", "nats")
LINKED = ("postgres", "nats")


@asynccontextmanager
async def linked_wakeups(kind: str, number: int = 2) -> AsyncIterator[list[Wakeups]]:
    """This number of wake-ups of one installation; in memory they are one object."""
    if kind == "memory":
        wakeups = MemoryWakeups()
        yield [wakeups] * number
        return
    async with AsyncExitStack() as stack:
        made: list[Wakeups] = []
        channel = f"c{uuid4().hex[:8]}"
        for _ in range(number):
            link = _linked(kind, channel)
            await link.open()
            stack.push_async_callback(link.close)
            await link.linked()
            made.append(link)
        yield made


def _linked(kind: str, channel: str) -> LinkedWakeups:
    if kind == "nats":
        return nats_dispatch(nats.server().url)
    return postgres_dispatch(postgres.server().auth("postgres"), channel=channel)
