"""A worker with its slots. Each slot reports, claims and runs orders, and waits for a wake-up when there are none.

One call reports the end of one order and claims the next, so that a chain of steps costs one commit per step.
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
from noetl.store.wakeups import Wakeups
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.control_plane import Begun, CancelledOrders, ControlPlane
from noetl.worker.live_output import OutputSender
from noetl.worker.order_context import Collections, OrderContext, WorkerServices, keep_slot
from noetl.worker.order_run import run_order
from noetl.worker.reports import EVERY_POOL, MOST_PENDING, LeaseLost, ReportQueue, Settle
from noetl.worker.slots import Slots, WorkerHandle

# Far more executions than a worker has at a time. The server masks the secrets of those that are evicted here.
_MOST_EXECUTIONS = 1_000
_NOTHING_BEGUN: Begun = {}


class Masks:
    """The secrets that this worker has received, by execution; the least recently used are evicted (KEY-06).

    A worker masks its own secrets before it sends anything. The server masks those that other workers of the same
    execution have received; it knows them all and does not send them here."""

    def __init__(self) -> None:
        self._masks: OrderedDict[str, Mask] = OrderedDict()

    async def of(self, execution_id: str) -> Mask:
        mask = self._masks.setdefault(execution_id, Mask())
        self._masks.move_to_end(execution_id)
        if len(self._masks) > _MOST_EXECUTIONS:
            self._masks.popitem(last=False)
        return mask


HEARTBEAT_S = 5.0  # O-33
SLOTS = 8  # orders that run at a time, by default


class Worker:
    """`Worker.serve` runs until it is cancelled or drained, and then leaves no process behind.

    It takes orders of its `pools`. `handle` has its id, its leases and the orders it runs. It renews its leases in its
    own event loop, unless a heartbeat thread does. `prepare` is called for an order before it runs, `settle` with a
    report before it is sent. `mask_of` returns the secrets that an execution has read, if this process knows them.
    `most_pending` is how many entries of an order may be unsent. `output` sends what tasks print while they run; None
    turns live output off.
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
        self._reports = ReportQueue(control_plane, handle, pools, settle, most_pending)
        self._cancelled_orders = CancelledOrders(control_plane, handle.worker_id)
        self._output = output
        self._services = WorkerServices(
            control_plane=control_plane,
            reports=self._reports,
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
                # In the same event loop only for a worker in the server's process: blocking this loop blocks the server
                # as well. A remote worker has a heartbeat thread (leases.py).
                beating = group.create_task(self._heartbeat()) if self._beats_itself else None
                self._at_work.open(self._slots)
                if self._is_draining:
                    self._at_work.drain()
                await self._at_work.drained()
                if beating is not None:
                    beating.cancel()
        finally:
            try:
                await self._reports.settled()  # results of tasks are recorded even if the worker ends now
                await self._cancelled_orders.settled()
            finally:
                if self._output is not None:
                    await self._output.close()
                await self._tools.close()

    async def _slot(self) -> None:
        end: Report | None = None
        assert self._at_work is not None
        while not self._at_work.may_leave():
            # The end of the last order and the claim of the next go in one turn: one commit for both.
            order = await self._reports.claim(end)
            end = await self._run(order) if order is not None else None
            if order is None and not self._is_draining:
                if self._at_work.may_leave():
                    return  # a task wanted its lent slot back during the claim: no later wake-up would say so (TOOL-11)
                async with self._at_work.idle():
                    # For a remote worker this is its long poll (remote_worker.py), which ends by itself, so that a lost
                    # wake-up costs only a moment.
                    await self._dispatch.wait()
        if end is not None:
            await self._reports.hand_in(end)

    def _extra_slot(self) -> AbstractAsyncContextManager[None]:
        return self._at_work.extra_slot() if self._at_work is not None else keep_slot()

    def drain(self) -> None:
        """Take no more orders; `serve` returns when the current ones are done and reported."""
        self._is_draining = True
        self._handle.close()
        if self._at_work is not None:
            self._at_work.drain()

    async def _run(self, order: Order) -> Report | None:
        """The report of the order's end, or None if this worker no longer holds it. It runs in the task of its slot: a
        task of its own would cost 0.04 ms per step. Cancelling the slot is how an order is stopped."""
        slot = asyncio.current_task()
        assert slot is not None
        crash_point("worker.claimed", order.step)
        self._handle.begin(order, slot)
        report, begun = None, _NOTHING_BEGUN
        try:
            net = await self._control_plane.net(order.net_hash)
            if self._prepare is not None:
                await self._prepare(order)
            context = OrderContext(order, net, self._services, await self._mask_of(order.execution_id))
            begun = context.cleanups
            try:
                report = await run_order(context)
            # Jobs that its tools have started elsewhere are ended only if the order was withdrawn: another worker may
            # hold it now, and continues with the same jobs (`CancelledOrders`).
            except LeaseLost as lost:
                self._cancelled_orders.end(order, begun, ReportResult(str(lost)))
            begun = _NOTHING_BEGUN
            await self._raise_lost_cancellation(order, slot)
        except asyncio.CancelledError:
            if self._handle.is_stopped(order):
                self._cancelled_orders.end(order, begun)
                # The count shows the cause of the cancellation: 0 means only the stop of this order. Anything else is
                # the end of the worker, and is raised again.
                if slot.uncancel() == 0:
                    return None  # the order was withdrawn; the slot goes on
            raise
        finally:
            self._handle.end(order, slot)
        return report

    async def _raise_lost_cancellation(self, order: Order, slot: asyncio.Task[Any]) -> None:
        """Raise a cancellation of the slot that another exception, such as LeaseLost, has replaced. Without this a
        cancelled slot would go on, and the worker would wait for its end forever."""
        if self._handle.is_stopped(order) or slot.cancelling():
            await asyncio.sleep(0)  # a cancellation that is still pending is raised here
            raise asyncio.CancelledError

    async def _heartbeat(self) -> None:
        """Renew the held leases; stop orders that this worker no longer holds."""
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
            if held := leases.epochs():
                # Taken before the request: the server renews from the time it receives it, and the answer may be late.
                asked_at = leases.now()
                lost = await self._control_plane.renew(self._handle.worker_id, held, leases.ttls())
                leases.renewed({one: epoch for one, epoch in held.items() if one not in lost}, asked_at)
                self._handle.stop(lost)
