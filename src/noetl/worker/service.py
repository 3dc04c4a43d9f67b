"""Service: a worker with its slots. Each slot reports, claims, runs, and waits for the doorbell when there is nothing.

Reporting the end of one order and claiming the next are one call, so that a chain of steps costs one commit a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from noetl.clock import Clock
from noetl.dispatch.contract import Dispatch
from noetl.records.orders import Order, Report
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.calls import keep_slot
from noetl.worker.collections import Collections
from noetl.worker.journal import LeaseLost
from noetl.worker.masks import Masks
from noetl.worker.office import Office
from noetl.worker.post import Post
from noetl.worker.runner import Runner
from noetl.worker.slots import Slots

HEARTBEAT_S = 5.0  # O-33
SLOTS = 8  # orders worked on at a time, unless somebody says otherwise


class Worker:
    """`Worker.serve` runs until it is cancelled, and then leaves no process behind."""

    def __init__(
        self,
        office: Office,
        dispatch: Dispatch,
        tools: Registry,
        *,
        clock: Clock,
        worker_id: str,
        slots: int = SLOTS,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._office, self._dispatch, self._tools = office, dispatch, tools
        self._clock, self._sleep = clock, sleep
        self._worker_id, self._slots = worker_id, slots
        self._masks, self._post, self._collections = Masks(), Post(office, worker_id), Collections(office.load)
        self._held: dict[str, tuple[int, asyncio.Task[Report]]] = {}
        self._at_work: Slots | None = None

    async def serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._at_work = Slots(group, self._slot, self._dispatch.ring)
                group.create_task(self._heartbeat())
                self._at_work.open(self._slots)
        finally:
            try:
                await self._post.settled()  # what a task gave is recorded, even if its worker ends now
            finally:
                await self._tools.close()

    async def _slot(self) -> None:
        end: Report | None = None
        assert self._at_work is not None
        while not self._at_work.may_leave():
            order = await self._post.claim(end)
            end = await self._run(order) if order is not None else None
            if order is None:
                async with self._at_work.idle():
                    await self._dispatch.wait()
        if end is not None:
            await self._post.hand_in(end)

    def stop(self, order_ids: Iterable[str]) -> None:
        """Nobody wants these orders any more: their tools are stopped where they stand (SRV-11)."""
        for order_id in order_ids:
            if held := self._held.get(order_id):
                held[1].cancel()

    async def _run(self, order: Order) -> Report | None:
        """The report of the order's end, or None when it is no longer ours."""
        net = await self._office.net(order.net_hash)
        runner = Runner(
            order,
            net,
            office=self._office,
            post=self._post,
            collections=self._collections,
            tools=self._tools,
            clock=self._clock,
            sleep=self._sleep,
            worker_id=self._worker_id,
            mask=self._masks.of(order.execution_id),
            lend=self._at_work.lent if self._at_work is not None else keep_slot,
        )
        running = asyncio.ensure_future(runner.run())
        self._held[order.order_id] = (order.lease_epoch, running)
        try:
            await asyncio.wait({running})  # not awaited itself: it may end in its own way while this slot is cancelled
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            running.cancelled() or running.exception()  # whatever it ended with is seen, and no longer matters
            raise
        finally:
            del self._held[order.order_id]
        if running.cancelled():
            return None  # the lease was gone, or nobody wants the order any more
        try:
            return running.result()
        except LeaseLost:
            return None

    async def _heartbeat(self) -> None:
        """Prolong what is held; stop what is not ours any more."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            leases = {order_id: epoch for order_id, (epoch, _) in self._held.items()}
            for lost in await self._office.renew(self._worker_id, leases) if leases else ():
                if held := self._held.get(lost):
                    held[1].cancel()
