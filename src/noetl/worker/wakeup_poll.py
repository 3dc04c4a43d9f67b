"""The doorbell of a remote worker: one long poll, for as long as some slot has nothing to do."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Collection

from noetl.store.wakeups.contract import DEFAULT_POOL
from noetl.worker.attempt import Sleep
from noetl.worker.remote_control_plane import RemoteControlPlane

_QUICK_S = 1.0  # a poll that comes back empty sooner was no long poll: do not ask in a circle


class WakeupPoll:
    def __init__(self, control_plane: RemoteControlPlane, *, sleep: Sleep = asyncio.sleep) -> None:
        self._control_plane, self._sleep = control_plane, sleep
        self._waiting: deque[asyncio.Future[None]] = deque()
        # One poll for all slots that wait: it asks for as many orders as there are idle slots.
        self._polling: asyncio.Task[None] | None = None
        self._is_closed = False

    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        for _ in range(times):
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    break

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        """Which pools is the control plane's to know."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._polling is None and not self._is_closed:
            self._polling = asyncio.ensure_future(self._poll())
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        return True

    async def _poll(self) -> None:
        now = asyncio.get_running_loop().time
        try:
            while wanted := sum(1 for waiter in self._waiting if not waiter.done()):
                began = now()
                come = await self._control_plane.poll(wanted)
                self.notify_workers(come)
                if not come and now() - began < _QUICK_S:
                    await self._sleep(random.uniform(0.1, 0.5))  # noqa: S311  it only spreads requests
        except Exception as problem:
            self._break(problem)
        finally:
            self._polling = None

    def _break(self, problem: Exception) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(problem)

    async def close(self) -> None:
        """Ask for nothing more: an order that came to a poll of ours now would have nobody. Who waits is still rung."""
        self._is_closed = True
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait({self._polling})
