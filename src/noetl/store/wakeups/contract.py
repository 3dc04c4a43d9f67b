"""The doorbell that wakes workers, and the one within one process. It may be lost, doubled or late; it never carries
state.

Whoever waits also looks now and then by itself, and whoever rings does it again while there is work, so that a bell
that is broken for a while costs a moment and nothing else (reliability.md §3.2).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Protocol

DEFAULT_POOL = "default"  # of orders that name no pool
EVERY_POOL = "*"  # for who waits: all of them


class Wakeups(Protocol):
    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        """There may be work for this many workers of a pool. Never waits, never fails."""

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        """Until it rings for one of these pools (None or `*`: for any), or the time is over: then False. If it rang
        while nobody waited, return at once."""

    async def close(self) -> None: ...


# A doorbell within one process.


class MemoryWakeups:
    """Each ring wakes one waiter. Rings that nobody heard are remembered as one a pool: whoever wakes looks for all
    work."""

    def __init__(self) -> None:
        self._anywhere: deque[asyncio.Future[None]] = deque()  # those who wait for any pool
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._missed: set[str] = set()

    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        self.wake(times, pool)

    def wake(self, times: int, pool: str) -> int:
        """Ring; gives how many of the rings nobody heard."""
        for heard in range(times):
            if not (_wake_one(self._waiting.get(pool)) or _wake_one(self._anywhere)):
                # One is enough however many were missed: who hears of it claims until nothing is left, and rings for
                # others.
                self._missed.add(pool)
                return times - heard
        return 0

    def wake_all(self) -> None:
        """Everybody who waits."""
        for line in (self._anywhere, *self._waiting.values()):
            while _wake_one(line):
                pass

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        if pools is not None and EVERY_POOL in pools:
            pools = None
        if missed := self._missed if pools is None else self._missed.intersection(pools):
            self._missed = self._missed - missed
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lines = [self._anywhere] if pools is None else [self._waiting.setdefault(pool, deque()) for pool in pools]
        for line in lines:
            line.append(waiter)
        try:
            if timeout is None:
                await waiter
                return True
            return bool((await asyncio.wait({waiter}, timeout=timeout))[0])
        finally:
            waiter.cancel()  # no use to anybody any more, if it was not woken
            if pools is not None:
                self._leave(waiter, pools)

    def _leave(self, waiter: asyncio.Future[None], pools: Collection[str]) -> None:
        """Take the waiter out of the lines it was not woken from, so that they do not grow while nothing rings."""
        for pool in pools:
            line = self._waiting.get(pool, deque())
            if waiter in line:
                line.remove(waiter)
            if not line:
                self._waiting.pop(pool, None)

    async def close(self) -> None:
        """Nothing is held open."""


def _wake_one(line: deque[asyncio.Future[None]] | None) -> bool:
    while line:
        waiter = line.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return True
    return False
