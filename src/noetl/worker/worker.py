"""A worker with its slots. Each slot reports, claims, runs, and waits for the doorbell when there is nothing.

Reporting the end of one order and claiming the next are one call, so that a chain of steps costs one commit a step.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.redaction import Mask
from noetl.events.orders import Order, Report, ReportResult
from noetl.store.wakeups.contract import Wakeups
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.calls import keep_slot
from noetl.worker.cancelled_orders import Begun, CancelledOrders
from noetl.worker.control_plane import ControlPlane
from noetl.worker.live_output import OutputSender
from noetl.worker.order_context import Collections, OrderContext, WorkerServices
from noetl.worker.order_run import run_order
from noetl.worker.report_queue import EVERY_POOL, MOST_PENDING, LeaseLost, ReportQueue, Settle
from noetl.worker.slots import Slots, WorkerHandle

# Far more than a worker has orders of at a time. What is forgotten here the server still masks.
_MOST_EXECUTIONS = 1_000
_NOTHING_BEGUN: Begun = {}


class Masks:
    """The secrets that this worker has seen, by execution, the ones not used longest forgotten first (KEY-06).

    A worker masks what it was given itself, before anything leaves it. What other workers of the same execution were
    given is masked by the server, which knows all of it; this worker is not told."""

    def __init__(self) -> None:
        self._masks: OrderedDict[str, Mask] = OrderedDict()

    async def of(self, execution_id: str) -> Mask:
        mask = self._masks.setdefault(execution_id, Mask())
        self._masks.move_to_end(execution_id)
        if len(self._masks) > _MOST_EXECUTIONS:
            self._masks.popitem(last=False)
        return mask


HEARTBEAT_S = 5.0  # O-33
SLOTS = 8  # orders worked on at a time, unless somebody says otherwise


class Worker:
    """`Worker.serve` runs until it is cancelled, or drained, and then leaves no process behind.

    It takes orders of its `pools`. `handle` has its id, its leases and the orders it runs. It prolongs its leases
    itself, in its own event loop, unless somebody does so from elsewhere. `prepare` is called for an order before it
    is run, `settle` with what is reported before it leaves; `mask_of` gives the secrets that an execution has read,
    where they are known in this process; `most_pending` is how much an order may have to tell before it does; `output`
    sends what tasks print while they run, where somebody can look.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        dispatch: Wakeups,
        tools: Registry,
        handle: WorkerHandle,
        *,
        clock: Clock,
        slots: int = SLOTS,
        sleep: Sleep = asyncio.sleep,
        pools: tuple[str, ...] = (EVERY_POOL,),
        beats_elsewhere: bool = False,
        prepare: Callable[[Order], Awaitable[None]] | None = None,
        settle: Settle | None = None,
        mask_of: Callable[[str], Awaitable[Mask]] | None = None,
        most_pending: int = MOST_PENDING,
        output: OutputSender | None = None,
    ) -> None:
        self._control_plane, self._dispatch, self._tools = control_plane, dispatch, tools
        self._handle, self._leases, self._slots = handle, handle.leases, slots
        self._beats_itself, self._prepare, self._mask_of = not beats_elsewhere, prepare, mask_of or Masks().of
        self._post = ReportQueue(control_plane, handle, pools, settle, most_pending)
        self._unwanted = CancelledOrders(control_plane, handle.worker_id)
        self._output = output
        self._services = WorkerServices(
            control_plane=control_plane,
            post=self._post,
            collections=Collections(control_plane.load),
            tools=tools,
            clock=clock,
            sleep=sleep,
            worker_id=handle.worker_id,
            lend=self._extra_slot,
            leases=handle.leases,
            output=output,
        )
        self._at_work: Slots | None = None
        self._is_draining = False

    async def serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._at_work = Slots(group, self._slot, self._dispatch.notify_workers, self._handle.idle)
                # In the same event loop only for a worker beside its server: what blocks this loop blocks the server as
                # well. A remote worker beats from a thread (leases.py).
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
                if self._output is not None:
                    await self._output.close()
                await self._tools.close()

    async def _slot(self) -> None:
        end: Report | None = None
        assert self._at_work is not None
        while not self._at_work.may_leave():
            # The end of the last order and the claim of the next travel together: one commit for both.
            order = await self._post.claim(end)
            end = await self._run(order) if order is not None else None
            if order is None and not self._is_draining:
                if self._at_work.may_leave():
                    return  # who lent its slot wanted it back while we asked: no ring would tell us later (TOOL-11)
                async with self._at_work.idle():
                    # For a remote worker this is its long poll (remote_worker.py), which ends by itself, so that a lost
                    # wake-up costs a moment only.
                    await self._dispatch.wait()
        if end is not None:
            await self._post.hand_in(end)

    def _extra_slot(self) -> AbstractAsyncContextManager[None]:
        return self._at_work.extra_slot() if self._at_work is not None else keep_slot()

    def drain(self) -> None:
        """Take no more orders; `serve` returns when those at hand are done and reported."""
        self._is_draining = True
        self._handle.close()
        if self._at_work is not None:
            self._at_work.drain()

    async def _run(self, order: Order) -> Report | None:
        """The report of the order's end, or None when it is no longer ours. It runs in its slot's own task: one of its
        own would cost a step 0.04 ms. Who stops the order cancels the slot, which takes it for what it was."""
        slot = asyncio.current_task()
        assert slot is not None
        crash_point("worker.claimed", order.step)
        self._handle.begin(order, slot)
        report, begun = None, _NOTHING_BEGUN
        try:
            net = await self._control_plane.net(order.net_hash)
            if self._prepare is not None:
                await self._prepare(order)
            place = OrderContext(order, net, self._services, await self._mask_of(order.execution_id))
            begun = place.unwanted
            try:
                report = await run_order(place)
            # What its tools have begun elsewhere is ended only if nobody wants the order any more: another worker may
            # hold it now, and goes on with the same jobs (cancelled_orders.py).
            except LeaseLost as lost:
                self._unwanted.end(order, begun, ReportResult(str(lost)))
            begun = _NOTHING_BEGUN
            await self._hear_stop(order, slot)
        except asyncio.CancelledError:
            if self._handle.is_stopped(order):
                self._unwanted.end(order, begun)
                # The count tells apart who cancelled: 0 means that it was only the stop of this order. Anything else is
                # the end of the worker, and goes on upwards.
                if slot.uncancel() == 0:
                    return None  # nobody wants the order any more; the slot goes on
            raise
        finally:
            self._handle.end(order, slot)
        return report

    async def _hear_stop(self, order: Order, slot: asyncio.Task[Any]) -> None:
        """The order ended, though its slot may have been cancelled meanwhile: a word of the server's that the order is
        lost, say, takes the place of the cancellation that it met. Then that is raised again here: a slot that was told
        to end, and went on, would be waited for in vain."""
        if self._handle.is_stopped(order) or slot.cancelling():
            await asyncio.sleep(0)  # if it is yet to be raised, it is raised here
            raise asyncio.CancelledError

    async def _heartbeat(self) -> None:
        """Prolong what is held; stop what is not ours any more."""
        loop, leases = asyncio.get_running_loop(), self._leases
        beaten_at = loop.time()
        while True:
            due_at = beaten_at + leases.every_s(HEARTBEAT_S)
            if loop.time() < due_at:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(due_at):
                        await leases.sooner_here.wait()
                        leases.sooner_here.clear()
                continue
            beaten_at = loop.time()
            if held := leases.held():
                # Before the request: the server prolongs from when it hears of it, and the answer may be late.
                asked_at = leases.now()
                lost = await self._control_plane.renew(self._handle.worker_id, held, leases.ttls())
                leases.renewed({one: epoch for one, epoch in held.items() if one not in lost}, asked_at)
                self._handle.stop(lost)
