"""The clock of servers that share a database: the database's own (reliability.md §3.3).

Leases, alarms and schedules are moments in the store, and several servers compare them. So that they agree whatever
their machines believe, each takes the time from where the data are and counts on from there by a clock that nobody can
set. It is looked at again now and then, for quartz drifts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from noetl.base.clock import Clock, SystemClock
from noetl.base.errors import NoetlError
from noetl.base.outages import Outage
from noetl.store.contract import Store

EVERY_S = 30.0
_SLOWEST_S = 1.0  # an answer that took longer says too little

_log = logging.getLogger(__name__)


class StoreClock:
    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store, self._monotonic = store, monotonic
        self._ahead_s = SystemClock().now() - monotonic()

    def now(self) -> float:
        return self._monotonic() + self._ahead_s

    async def synchronise(self) -> None:
        """Set it by the store."""
        before = self._monotonic()
        there = await self._store.now()
        after = self._monotonic()
        if there is not None and after - before <= _SLOWEST_S:
            self._ahead_s = there - (before + after) / 2

    async def keep_right(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look again, for as long as anybody wants it."""
        outage = Outage(_log, "the clock was not set by the store", "the clock is set by the store again")
        while True:
            await sleep(EVERY_S)
            try:
                await self.synchronise()
                outage.worked()
            except NoetlError as problem:  # the store is away, say: it will be back
                outage.failed(problem)


async def clock_of(store: Store) -> Clock:
    """The store's clock where it has one of its own, else this machine's."""
    if await store.now() is None:
        return SystemClock()
    clock = StoreClock(store)
    await clock.synchronise()
    return clock
