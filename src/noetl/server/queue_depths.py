"""Queue depths: how many orders have waited in each pool over the last hour, looked at twice a minute.

For people who ask whether a pool keeps up. It is kept in the memory of one server and counts what all servers have
stored, so any of them shows the same; after a restart it begins anew. Monitoring that lasts reads `/metrics`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from noetl.base.clock import Clock
from noetl.base.errors import BackendError
from noetl.store.contract import Store

EVERY_S = 30.0
LOOKS = 120  # an hour of them


class QueueDepths:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._looks: deque[Mapping[str, int]] = deque(maxlen=LOOKS)

    async def serve(self) -> None:
        while True:
            try:
                await self.count_waiting()
            except BackendError:
                self._looks.append({})  # its connections have told that the store is away
            await asyncio.sleep(EVERY_S)

    async def count_waiting(self) -> None:
        """Count the orders that wait, by pool, and remember it."""
        self._looks.append(await self._store.unclaimed(now=self._clock.now()))

    def of(self, pool: str, now: int) -> list[int]:
        """Of one pool, the oldest first; `now` is the newest."""
        return [*(one.get(pool, 0) for one in self._looks), now]

    @property
    def pools(self) -> set[str]:
        """Those in which something has waited."""
        return {pool for one in self._looks for pool in one}
