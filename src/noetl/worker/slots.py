"""Slots of a worker: how many orders it works on at a time. A task that only waits lends its slot (TOOL-11)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Work = Callable[[], Awaitable[None]]


class Slots:
    """`work` is what one slot does for as long as it lasts; `ring` wakes another one that waits for work."""

    def __init__(self, group: asyncio.TaskGroup, work: Work, ring: Callable[[], None]) -> None:
        self._group, self._work, self._ring = group, work, ring
        self._idle: set[asyncio.Task[None]] = set()
        self._leaving: deque[asyncio.Future[None]] = deque()
        self._at_work: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self._drained = asyncio.Event()

    def open(self, number: int) -> None:
        for _ in range(number):
            slot = self._group.create_task(self._run())
            self._at_work.add(slot)
            slot.add_done_callback(self._on_slot_end)

    async def _run(self) -> None:
        await self._work()

    def _on_slot_end(self, slot: asyncio.Task[None]) -> None:
        self._at_work.discard(slot)
        if self._is_draining and not self._at_work:
            self._drained.set()

    @property
    def waiting(self) -> int:
        """How many slots have nothing to do."""
        return len(self._idle)

    def drain(self) -> None:
        """Nobody takes anything more: who has nothing to do ends now, the others when they are done."""
        self._is_draining = True
        for slot in self._idle:
            slot.cancel()
        while self._leaving:
            _resolve(self._leaving.popleft())
        if not self._at_work:
            self._drained.set()

    async def drained(self) -> None:
        """Return once `drain` was called and every slot has ended."""
        await self._drained.wait()

    def may_leave(self) -> bool:
        """Whether the slot that asks is one too many; then it must end."""
        if self._is_draining:
            return True
        while self._leaving:
            waiting = self._leaving.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return True
        return False

    @asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """While a slot has nothing to do, it can be closed at once."""
        task = asyncio.current_task()
        assert task is not None
        self._idle.add(task)
        try:
            yield
        finally:
            self._idle.discard(task)

    @asynccontextmanager
    async def extra_slot(self) -> AsyncIterator[None]:
        """A further slot works while the body only waits; afterwards there are as many at work as before."""
        if self._is_draining:
            yield
            return
        # Without it, nested playbooks deadlock: every slot waits for a child that finds no slot.
        self.open(1)
        try:
            yield
        except BaseException:
            # Not awaited: the order ends with an error, and must not wait for another slot to become free first.
            self._close_one()
            raise
        await self._close_one()

    def _close_one(self) -> asyncio.Future[None]:
        """Done once one slot has ended."""
        closed = asyncio.get_running_loop().create_future()
        if self._is_draining:
            closed.set_result(None)  # every slot ends without being told
            return closed
        if self._idle:
            # An idle slot holds no order, so cancelling it loses nothing.
            self._idle.pop().cancel()
            closed.set_result(None)
        else:
            self._leaving.append(closed)
        self._ring()  # should the one that ends just have been woken, or another be about to wait, somebody must look
        return closed


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
