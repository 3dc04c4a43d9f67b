"""Readiness: whether a server can do what it is for, which takes a store that can be written.

Anybody may ask, so the store is tried every few seconds at most, however often that is.
"""

from __future__ import annotations

import asyncio
import time

from noetl.base.clock import Clock
from noetl.base.errors import BackendError
from noetl.store.contract import Store

KIND, NAME = "health", "probe"
TRIED_EVERY_S = 5.0


class Readiness:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._tried_at = float("-inf")
        self._problem: str | None = None
        self._trying = asyncio.Lock()

    async def problem(self) -> str | None:
        """Why the server cannot serve, None when it can."""
        async with self._trying:
            if time.monotonic() - self._tried_at >= TRIED_EVERY_S:
                self._problem = await self._try()
                self._tried_at = time.monotonic()
        return self._problem

    async def _try(self) -> str | None:
        key_values = self._store.key_values
        try:
            await self._store.executions(limit=1)
            there = await key_values.get(KIND, NAME)
        except BackendError:
            return "the store cannot be read"
        try:
            over = there.version if there is not None else 0
            await key_values.put(KIND, NAME, b"{}", over=over, at=self._clock.now())  # None: another server was faster
        except BackendError:
            return "the store cannot be written"
        return None
