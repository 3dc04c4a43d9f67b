"""A worker with its slots. Each slot reports, claims, runs, and waits for the doorbell when there is nothing.

Reporting the end of one order and claiming the next are one call, so that a chain of steps costs one commit a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.redaction import Mask
from noetl.events.orders import Order, Report, ReportResult
from noetl.store.wakeups.contract import Wakeups
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.calls import keep_slot
from noetl.worker.cancelled_orders import CancelledOrders
from noetl.worker.collections import Collections
from noetl.worker.control_plane import ControlPlane
from noetl.worker.journal import LeaseLost
from noetl.worker.leases import HeldLeases
from noetl.worker.masks import Masks
from noetl.worker.order_run import OrderRunner
from noetl.worker.report_queue import EVERY_POOL, MOST_PENDING, ReportQueue, Settle
from noetl.worker.slots import Slots

HEARTBEAT_S = 5.0  # O-33
SLOTS = 8  # orders worked on at a time, unless somebody says otherwise


class Worker:
    """`Worker.serve` runs until it is cancelled, or drained, and then leaves no process behind.

    It takes orders of its `pools`. `leases` are those it holds; it prolongs them itself, in its own event loop, unless
    somebody does so from elsewhere. `prepare` is called for an order before it is run, `settle` with what
    is reported before it leaves; `mask_of` gives the secrets that an execution has read, where they are known in this
    process; `most_pending` is how much an order may have to tell before it does.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        dispatch: Wakeups,
        tools: Registry,
        *,
        clock: Clock,
        worker_id: str,
        slots: int = SLOTS,
        sleep: Sleep = asyncio.sleep,
        pools: tuple[str, ...] = (EVERY_POOL,),
        leases: HeldLeases | None = None,
        beats_elsewhere: bool = False,
        prepare: Callable[[Order], Awaitable[None]] | None = None,
        settle: Settle | None = None,
        mask_of: Callable[[str], Awaitable[Mask]] | None = None,
        most_pending: int = MOST_PENDING,
    ) -> None:
        self._control_plane, self._dispatch, self._tools = control_plane, dispatch, tools
        self._clock, self._sleep = clock, sleep
        self.worker_id, self._slots = worker_id, slots
        self.leases, self._beats_itself, self._prepare = leases or HeldLeases(clock), not beats_elsewhere, prepare
        self._mask_of, self._post, self._collections = (
            mask_of or Masks().of,
            ReportQueue(control_plane, worker_id, pools, self.leases, settle, most_pending),
            Collections(control_plane.load),
        )
        self._unwanted = CancelledOrders(control_plane, worker_id)
        self._running: dict[str, asyncio.Task[Any]] = {}  # by order, the slot that runs it
        self._stopped: set[str] = set()
        self._at_work: Slots | None = None
        self._is_draining = False

    async def serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._at_work = Slots(group, self._slot, self._dispatch.notify_workers)
                beating = group.create_task(self._heartbeat()) if self._beats_itself else None
                self._at_work.open(self._slots)
                if self._is_draining:
                    self._at_work.drain()
                await self._at_work.drained()
                if beating is not None:
                    beating.cancel()
        finally:
            try:
                await self._post.settled()  # what a task gave is recorded, even if its worker ends now
                await self._unwanted.settled()
            finally:
                await self._tools.close()

    async def _slot(self) -> None:
        end: Report | None = None
        assert self._at_work is not None
        while not self._at_work.may_leave():
            order = await self._post.claim(end)
            end = await self._run(order) if order is not None else None
            if order is None and not self._is_draining:
                if self._at_work.may_leave():
                    return  # who lent its slot wanted it back while we asked: no ring would tell us later (TOOL-11)
                async with self._at_work.idle():
                    await self._dispatch.wait()
        if end is not None:
            await self._post.hand_in(end)

    @property
    def free(self) -> int:
        """How many orders would be begun at once, were they given."""
        waiting = self._at_work.waiting if self._at_work is not None and not self._is_draining else 0
        return max(0, waiting - self._post.spare)

    def give(self, orders: Sequence[Order]) -> None:
        """Orders that were claimed for us while we waited."""
        self._post.give(orders)
        self._dispatch.notify_workers(len(orders))

    def drain(self) -> None:
        """Take no more orders; `serve` returns when those at hand are done and reported."""
        self._is_draining = True
        if self._at_work is not None:
            self._at_work.drain()

    def stop(self, order_ids: Iterable[str]) -> None:
        """Nobody wants these orders any more: their tools are stopped where they stand (SRV-11)."""
        for order_id in order_ids:
            running = self._running.get(order_id)
            if running is not None and order_id not in self._stopped:
                self._stopped.add(order_id)
                running.cancel()

    @property
    def at_work_on(self) -> list[str]:
        """The orders that are being run."""
        return list(self._running)

    async def _run(self, order: Order) -> Report | None:
        """The report of the order's end, or None when it is no longer ours. It runs in its slot's own task: one of its
        own would cost a step 0.04 ms. Who stops the order cancels the slot, which takes it for what it was."""
        slot = asyncio.current_task()
        assert slot is not None
        crash_point("worker.claimed", order.step)
        self._running[order.order_id] = slot
        self.leases.hold(order.order_id, order.lease_epoch, order.terms)
        try:
            report = await self._to_end(order)
            await self._hear_stop(order, slot)
        except asyncio.CancelledError:
            if order.order_id in self._stopped and slot.uncancel() == 0:
                return None  # nobody wants the order any more; the slot goes on
            raise
        finally:
            self._stopped.discard(order.order_id)
            if self._running.get(order.order_id) is slot:  # else it has come again meanwhile, under a later lease
                del self._running[order.order_id]
                self.leases.drop(order.order_id)
        return report

    async def _hear_stop(self, order: Order, slot: asyncio.Task[Any]) -> None:
        """The order ended, though its slot may have been cancelled meanwhile: a word of the server's that the order is
        lost, say, takes the place of the cancellation that it met. Then that is raised again here: a slot that was told
        to end, and went on, would be waited for in vain."""
        if order.order_id in self._stopped or slot.cancelling():
            await asyncio.sleep(0)  # if it is yet to be raised, it is raised here
            raise asyncio.CancelledError

    async def _to_end(self, order: Order) -> Report | None:
        net = await self._control_plane.net(order.net_hash)
        if self._prepare is not None:
            await self._prepare(order)
        runner = OrderRunner(
            order,
            net,
            control_plane=self._control_plane,
            post=self._post,
            collections=self._collections,
            tools=self._tools,
            clock=self._clock,
            sleep=self._sleep,
            worker_id=self.worker_id,
            mask=await self._mask_of(order.execution_id),
            lend=self._at_work.extra_slot if self._at_work is not None else keep_slot,
            leases=self.leases,
        )
        try:
            return await runner.run()
        except LeaseLost as lost:
            self._unwanted.end(order, runner.begun, ReportResult(str(lost)))
            return None
        except asyncio.CancelledError:
            if order.order_id in self._stopped:
                self._unwanted.end(order, runner.begun)
            raise

    async def _heartbeat(self) -> None:
        """Prolong what is held; stop what is not ours any more."""
        loop, hurried = asyncio.get_running_loop(), asyncio.Event()
        self.leases.hurry = hurried.set
        beaten_at = loop.time()
        while True:
            due_at = beaten_at + self.leases.every_s(HEARTBEAT_S)
            if loop.time() < due_at:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(due_at):
                        await hurried.wait()
                        hurried.clear()
                continue
            beaten_at = loop.time()
            if leases := self.leases.held():
                asked_at = self.leases.now()
                lost = await self._control_plane.renew(self.worker_id, leases, self.leases.ttls())
                self.leases.renewed({one: epoch for one, epoch in leases.items() if one not in lost}, asked_at)
                self.stop(lost)
