"""Wake-ups that other processes receive too: the local ones, and a link to the other processes (docs/decisions/0004).

A worker that waits in this process is woken at once. Only wake-ups that nobody here needed go out, collected by
pool, from a separate task. So notifying costs nothing, and a link that is down costs nothing either. It is opened
again until it holds. For wake-ups that were lost meanwhile, everybody who waits is woken once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from noetl.base.errors import Outage
from noetl.store.wakeups.contract import DEFAULT_POOL, MemoryWakeups

Hear = Callable[[str, int], None]
MOST_TIMES = 1_000  # of one ring; more workers than that do not wait at once
FIRST_S, LONGEST_S = 0.1, 5.0  # between two tries to make the link
_AGAIN_S = 0.5

_log = logging.getLogger(__name__)


class Link(Protocol):
    async def send(self, pool: str, times: int) -> None:
        """Ring at the others. Raises where that is not certain."""

    async def listen(self) -> None:
        """Hear for as long as the link holds; raises when it does no more."""


class LinkedWakeups:
    """`connect` makes the link, which tells what it hears to the function that it is given."""

    def __init__(self, connect: Callable[[Hear], AbstractAsyncContextManager[Link]]) -> None:
        self._connect = connect
        self._near = MemoryWakeups()
        # By pool, how many wake-ups are still to be sent to other processes.
        self._out: dict[str, int] = {}
        self._to_send = asyncio.Event()
        self._linked = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        lost = "wake-ups are not exchanged with other processes, which poll meanwhile"
        self._outage = Outage(_log, lost, "wake-ups are exchanged with other processes again")

    async def open(self) -> None:
        """Begin; it need not be linked then, nor ever."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())

    async def close(self) -> None:
        serving, self._serving = self._serving, None
        while serving is not None and not serving.done():
            serving.cancel()
            await asyncio.wait({serving}, timeout=_AGAIN_S)  # a driver may swallow it

    @property
    def is_linked(self) -> bool:
        return self._linked.is_set()

    async def linked(self) -> None:
        """Return once the link holds."""
        await self._linked.wait()

    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        # A worker here takes the order for sure; one elsewhere would only find it gone.
        if unheard := self._near.wake(times, pool):
            self._out[pool] = min(self._out.get(pool, 0) + unheard, MOST_TIMES)
            self._to_send.set()

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        return await self._near.wait(pools, timeout)

    def _wake_local(self, pool: str, times: int) -> None:
        # The number comes from another process, and must not make us loop for long.
        self._near.wake(max(1, min(times, MOST_TIMES)), pool)

    async def _serve(self) -> None:
        pause_s = FIRST_S
        while self._serving is not None:
            try:
                async with self._connect(self._wake_local) as link:
                    pause_s = FIRST_S
                    self._outage.worked()
                    self._linked.set()
                    self._near.wake_all()  # wake-ups may have been lost while there was no link
                    await self._hold(link)
            except Exception as problem:
                self._outage.failed(problem)
            finally:
                self._linked.clear()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - so that servers do not come at once
            pause_s = min(pause_s * 2, LONGEST_S)

    async def _hold(self, link: Link) -> None:
        """Send and listen until one of the two breaks."""
        # Together: a link that only sends, or only listens, looks healthy and is not.
        both = [asyncio.ensure_future(self._send(link)), asyncio.ensure_future(link.listen())]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in both:
                one.cancel()
            await asyncio.wait(both)

    async def _send(self, link: Link) -> None:
        while True:
            while self._out:
                pool, times = next(iter(self._out.items()))
                await link.send(pool, times)
                left = self._out.pop(pool) - times  # only now: what could not be sent is sent over the next link
                if left > 0:
                    self._out[pool] = left  # it rang again meanwhile, for what those who have heard may have missed
            self._to_send.clear()
            await self._to_send.wait()
