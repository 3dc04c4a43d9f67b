"""Slots that are lent while somebody only waits, and come back (TOOL-11)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from noetl.base.clock import SystemClock
from noetl.events.orders import Turn, TurnAnswer
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.registry import Registry
from noetl.worker.slots import Slots, WorkerHandle
from noetl.worker.worker import Worker
from tests.worker.accepting_control_plane import AcceptingControlPlane


class Shop:
    """Slots that take jobs from a list and wait for a wake-up when there is none."""

    def __init__(self) -> None:
        self.wakeups, self.jobs, self.open, self.done = MemoryWakeups(), list[Awaitable[object]](), 0, 0
        self.slots: Slots | None = None

    async def work(self) -> None:
        assert self.slots is not None
        self.open += 1
        try:
            while not self.slots.may_leave():
                await asyncio.sleep(0)  # asking takes a moment
                if self.jobs:
                    await self.jobs.pop(0)
                    self.done += 1
                else:
                    async with self.slots.idle():
                        await self.wakeups.wait()
        finally:
            self.open -= 1


async def _quiet() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("moments", range(6))
async def test_lending_slots_keeps_the_number_of_working_slots(moments: int) -> None:
    shop = Shop()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        shop.slots = Slots(group, shop.work, shop.wakeups.notify_workers)
        shop.slots.open(1)
        await _quiet()
        async with shop.slots.extra_slot():
            for _ in range(moments):
                await asyncio.sleep(0)
            assert shop.open == 2 or moments == 0
        await _quiet()
        assert shop.open == 1

        gate = asyncio.Event()
        shop.jobs = [gate.wait(), gate.wait()]
        shop.wakeups.notify_workers(2)
        await _quiet()
        assert shop.done == 0
        assert len(shop.jobs) == 1, "one slot takes one job"
        gate.set()
        await _quiet()
        assert shop.done == 2
        await _close(shop)


async def test_a_returning_slot_waits_until_a_busy_one_ends_its_order() -> None:
    shop, gate = Shop(), asyncio.Event()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        shop.slots = Slots(group, shop.work, shop.wakeups.notify_workers)

        async def borrower() -> None:
            assert shop.slots is not None
            async with shop.slots.extra_slot():
                shop.jobs = [gate.wait()]
                shop.wakeups.notify_workers()
                await _quiet()

        waiting = asyncio.create_task(borrower())
        await _quiet()
        await _quiet()
        assert not waiting.done()
        gate.set()
        await waiting
        await _quiet()
        assert shop.open == 0


async def test_a_cancelled_borrower_leaves_no_slot_behind() -> None:
    shop = Shop()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        shop.slots = Slots(group, shop.work, shop.wakeups.notify_workers)

        async def borrower() -> None:
            assert shop.slots is not None
            async with shop.slots.extra_slot():
                await asyncio.Event().wait()

        waiting = asyncio.create_task(borrower())
        await _quiet()
        assert shop.open == 1
        waiting.cancel()
        await _quiet()
        assert shop.open == 0


class NothingToDo(AcceptingControlPlane):
    """An office that takes its time to say that there is no order."""

    def __init__(self) -> None:
        self.asked, self.answer = 0, asyncio.Event()

    async def turn(self, turn: Turn) -> TurnAnswer:
        self.asked += turn.capacity
        await self.answer.wait()
        return TurnAnswer()


class ForgetfulWakeups(MemoryWakeups):
    """Like those of a remote worker: a wake-up without a waiter is lost."""

    def notify_workers(self, times: int = 1, *, pool: str = "default") -> None:
        pass


@pytest.mark.req("TOOL-11")
async def test_a_borrowed_slot_that_asks_for_work_ends_when_it_is_reclaimed() -> None:
    """A worker of one slot: the child has ended, and the slot that was lent to it still reports that and asks on."""
    control_plane = NothingToDo()
    wakeups = ForgetfulWakeups()
    handle = WorkerHandle("w", wakeups.notify_workers)
    service = Worker(control_plane, wakeups, Registry(), handle, clock=SystemClock(), slots=1)
    async with asyncio.timeout(60):
        serving = asyncio.create_task(service.serve())
        await _quiet()

        async def parent() -> None:
            assert service._at_work is not None
            async with service._at_work.extra_slot():
                await _quiet()

        returning = asyncio.create_task(parent())
        await _quiet()
        await _quiet()
        assert not returning.done()
        control_plane.answer.set()
        await returning
        service.drain()
        await serving


async def _close(shop: Shop) -> None:
    """End the last slot, so that the group is over."""
    assert shop.slots is not None
    with pytest.raises(ZeroDivisionError):
        async with shop.slots.extra_slot():
            raise ZeroDivisionError
    shop.slots._close_one()
