"""A doorbell within one process."""

from __future__ import annotations

import asyncio


class MemoryDispatch:
    """Each ring wakes one waiter; it never forgets a ring while the process lives."""

    def __init__(self) -> None:
        self._rings = asyncio.Semaphore(0)

    def ring(self, times: int = 1) -> None:
        for _ in range(times):
            self._rings.release()

    async def wait(self) -> None:
        await self._rings.acquire()
