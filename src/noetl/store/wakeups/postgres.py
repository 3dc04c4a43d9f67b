"""A doorbell over PostgreSQL's LISTEN and NOTIFY: nothing to install beside the store.

Each ring is one notification, "times pool"; PostgreSQL keeps none for whoever is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.store.wakeups.linked import Hear, LinkedWakeups

CHANNEL = "noetl_orders"
TRIAL_S = 10.0  # how often a silent connection is tried
_PATIENCE_S = 5.0
_LONGEST = 7_000  # bytes of a notification, which PostgreSQL bounds at 8,000


def postgres_dispatch(connect_arguments: Mapping[str, Any], *, channel: str = CHANNEL) -> LinkedWakeups:
    """`connect_arguments` are those of the driver; servers that share orders share the `channel`."""

    @asynccontextmanager
    async def connect(hear: Hear) -> AsyncIterator[_PostgresLink]:
        connection = await asyncpg.connect(**connect_arguments, timeout=_PATIENCE_S)
        try:
            link = _PostgresLink(connection, channel, hear)
            await link.begin()
            yield link
        finally:
            connection.terminate()

    return LinkedWakeups(connect)


class _PostgresLink:
    def __init__(self, connection: asyncpg.Connection, channel: str, hear: Hear) -> None:
        self._connection, self._channel, self._hear = connection, channel, hear
        self._asking = asyncio.Lock()  # a connection does one thing at a time
        self._lost = asyncio.Event()

    async def begin(self) -> None:
        self._connection.add_termination_listener(lambda _: self._lost.set())
        await self._connection.add_listener(self._channel, self._on_notification)

    def _on_notification(self, connection: object, pid: int, channel: str, payload: object) -> None:
        times, _, pool = str(payload).partition(" ")
        # Our own notifications come back on the same connection.
        if pid != self._connection.get_server_pid() and times.isdigit():
            self._hear(pool, int(times))

    async def send(self, pool: str, times: int) -> None:
        if len(pool.encode()) < _LONGEST:
            await self._ask("SELECT pg_notify($1, $2)", self._channel, f"{times} {pool}")

    async def listen(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._lost.wait(), TRIAL_S)
            except TimeoutError:
                await self._ask("SELECT 1")
            else:
                raise ConnectionError("the connection to PostgreSQL was lost")

    async def _ask(self, statement: str, *values: object) -> None:
        async with self._asking:
            await self._connection.execute(statement, *values, timeout=_PATIENCE_S)
