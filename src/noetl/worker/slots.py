"""Slots of a worker: how many orders it works on at a time. A task that only waits lends its slot (TOOL-11).

`WorkerHandle` is made before the worker and before its control plane, and given to both: through it orders are handed
over and stopped by a control plane in the same process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from noetl.events.orders import Order
from noetl.worker.leases import HeldLeases

Work = Callable[[], Awaitable[None]]


class WorkerHandle:
    """What a worker shares with whoever gives it orders and stops them. `ring` wakes as many slots as it is told;
    `leases` are those that the worker holds."""

    def __init__(self, worker_id: str, ring: Callable[[int], None], leases: HeldLeases | None = None) -> None:
        self.worker_id, self._ring, self.leases = worker_id, ring, leases or HeldLeases()
        self.idle: set[asyncio.Task[None]] = set()  # slots that have nothing to do
        self.spare: list[Order] = []  # orders that wait for a slot
        self._running: dict[str, asyncio.Task[Any]] = {}  # by order, the slot that runs it
        # Orders whose slot was cancelled by `stop`, so that the slot can tell this from its own end.
        self._stopped: set[str] = set()
        self._takes_orders = True

    # orders come

    @property
    def free(self) -> int:
        """How many orders would be begun at once, were they given."""
        return max(0, len(self.idle) - len(self.spare)) if self._takes_orders else 0

    def give(self, orders: Sequence[Order]) -> None:
        """Orders that were claimed for the worker while it waited; whoever claims next has them."""
        # An order may come twice: with the answer to a turn, and from a batch that claimed for this worker.
        self.receive([order for order in orders if self.leases.add_if_new(order.order_id, order.lease_epoch)])
        self._ring(len(orders))

    def receive(self, orders: Sequence[Order]) -> None:
        """Orders have come. One that waits for its slot is held as well."""
        for order in orders:
            self.leases.receive(order)
        self.spare += orders

    def close(self) -> None:
        """The worker takes no more orders."""
        self._takes_orders = False

    # orders run

    @property
    def running(self) -> list[str]:
        """The orders that are being run."""
        return list(self._running)

    def begin(self, order: Order, slot: asyncio.Task[Any]) -> None:
        self._running[order.order_id] = slot
        self.leases.hold(order.order_id, order.lease_epoch, order.terms)

    def end(self, order: Order, slot: asyncio.Task[Any]) -> None:
        self._stopped.discard(order.order_id)
        if self._running.get(order.order_id) is slot:  # else it has come again meanwhile, under a later lease
            del self._running[order.order_id]
            self.leases.drop(order.order_id)

    def stop(self, order_ids: Iterable[str]) -> None:
        """Nobody wants these orders any more: their tools are stopped where they stand (SRV-11)."""
        for order_id in order_ids:
            running = self._running.get(order_id)
            if running is not None and order_id not in self._stopped:
                self._stopped.add(order_id)
                running.cancel()

    def is_stopped(self, order: Order) -> bool:
        return order.order_id in self._stopped


class Slots:
    """`work` is what one slot does for as long as it lasts; `ring` wakes another one that waits for work; `idle` are
    those that have nothing to do."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        work: Work,
        ring: Callable[[], None],
        idle: set[asyncio.Task[None]] | None = None,
    ) -> None:
        self._group, self._work, self._ring = group, work, ring
        self._idle = idle if idle is not None else set()
        # Those who lent their slot and want it back. The next slot that is done resolves one, and ends in its place.
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
