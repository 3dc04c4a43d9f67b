"""A doorbell within one process."""

from __future__ import annotations

import asyncio
from collections import deque


class MemoryDispatch:
    """Each ring wakes one waiter. Rings that nobody heard are remembered as one: whoever wakes looks for all work."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._missed = False

    def ring(self, times: int = 1) -> None:
        for _ in range(times):
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    break
            else:
                self._missed = True
                return

    async def wait(self) -> None:
        if self._missed:
            self._missed = False
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter
