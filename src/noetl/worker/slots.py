"""Slots of a worker: how many orders it runs at a time. A task that only waits lends its slot (TOOL-11).

`WorkerHandle` is created before the worker and its control plane, and passed to both: a control plane in the same
process hands over and stops orders through it.
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
    """The state that a worker shares with a control plane in the same process. `ring` wakes that many slots; `leases`
    are those that the worker holds."""

    def __init__(self, worker_id: str, ring: Callable[[int], None], leases: HeldLeases | None = None) -> None:
        self.worker_id, self._ring, self.leases = worker_id, ring, leases or HeldLeases()
        self.idle: set[asyncio.Task[None]] = set()  # slots without an order
        self.spare: list[Order] = []  # orders that wait for a slot
        self._running: dict[str, asyncio.Task[Any]] = {}  # by order, the slot that runs it
        # Orders whose slot was cancelled by `stop`, so that the slot can distinguish this from its own end.
        self._stopped: set[str] = set()
        self._takes_orders = True

    # orders come

    @property
    def free(self) -> int:
        """How many more orders the worker could begin at once."""
        return max(0, len(self.idle) - len(self.spare)) if self._takes_orders else 0

    def give(self, orders: Sequence[Order]) -> None:
        """Hand over orders that were claimed for the worker while it waited. The next slot that claims gets them."""
        # An order may come twice: with the answer to a turn, and from a batch that claimed for this worker.
        self.receive([order for order in orders if self.leases.add_if_new(order.order_id, order.lease_epoch)])
        self._ring(len(orders))

    def receive(self, orders: Sequence[Order]) -> None:
        """Hold the leases of orders that have come, also of those that wait for a slot."""
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
        # Otherwise the order was received again meanwhile, under a later lease.
        if self._running.get(order.order_id) is slot:
            del self._running[order.order_id]
            self.leases.drop(order.order_id)

    def stop(self, order_ids: Iterable[str]) -> None:
        """Cancel the slots of withdrawn orders, and with them their running tools (SRV-11)."""
        for order_id in order_ids:
            running = self._running.get(order_id)
            # Only once: the slot counts its cancellations, and would take a second one for the end of the worker.
            if running is not None and order_id not in self._stopped:
                self._stopped.add(order_id)
                running.cancel()

    def is_stopped(self, order: Order) -> bool:
        return order.order_id in self._stopped


class Slots:
    """`work` is the loop of one slot; `ring` wakes another slot that waits for work; `idle` are the slots without an
    order."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        work: Work,
        ring: Callable[[], None],
        idle: set[asyncio.Task[None]] | None = None,
    ) -> None:
        self._group, self._work, self._ring = group, work, ring
        self._idle = idle if idle is not None else set()
        # Tasks that lent their slot and want it back. The next slot that is done resolves one, and ends in its place.
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

    def drain(self) -> None:
        """Take no more orders: idle slots end now, the others when they are done."""
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
        """Whether there is one slot too many; then the calling slot must end."""
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
        """Mark the slot as idle: it can be closed at once."""
        task = asyncio.current_task()
        assert task is not None
        self._idle.add(task)
        try:
            yield
        finally:
            self._idle.discard(task)

    @asynccontextmanager
    async def extra_slot(self) -> AsyncIterator[None]:
        """Open a further slot while the body only waits; afterwards there are as many as before."""
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
        """A future that is done once one slot has ended."""
        closed = asyncio.get_running_loop().create_future()
        if self._is_draining:
            closed.set_result(None)  # the worker is draining: every slot ends anyway
            return closed
        if self._idle:
            # An idle slot holds no order, so cancelling it loses nothing.
            self._idle.pop().cancel()
            closed.set_result(None)
        else:
            self._leaving.append(closed)
        # The slot that ends may just have been woken for work, or another may be about to wait: one has to check.
        self._ring()
        return closed


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
