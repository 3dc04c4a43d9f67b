"""Service: a worker with its slots. Each slot reports, claims, runs, and waits for the doorbell when there is nothing.

Reporting the end of one order and claiming the next are one call, so that a chain of steps costs one commit a step.
"""

from __future__ import annotations

import asyncio

from noetl.clock import Clock
from noetl.dispatch.contract import Dispatch
from noetl.records.orders import Order, Report, Turn
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.journal import LeaseLost
from noetl.worker.office import Office
from noetl.worker.runner import Runner

HEARTBEAT_S = 5.0  # O-33


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
        slots: int = 8,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._office, self._dispatch, self._tools = office, dispatch, tools
        self._clock, self._sleep = clock, sleep
        self._worker_id, self._slots = worker_id, slots
        self._held: dict[str, tuple[int, asyncio.Task[Report]]] = {}

    async def serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._heartbeat())
                for _ in range(self._slots):
                    group.create_task(self._slot())
        finally:
            await self._tools.close()

    async def _slot(self) -> None:
        reports: tuple[Report, ...] = ()
        while True:
            answer = await self._office.turn(Turn(worker_id=self._worker_id, reports=reports, capacity=1))
            ended = [await self._run(order) for order in answer.orders]
            reports = tuple(report for report in ended if report is not None)
            if not answer.orders:
                await self._dispatch.wait()

    async def _run(self, order: Order) -> Report | None:
        """The report of the order's end, or None when it is no longer ours."""
        net = await self._office.net(order.net_hash)
        runner = Runner(
            order,
            net,
            office=self._office,
            tools=self._tools,
            clock=self._clock,
            sleep=self._sleep,
            worker_id=self._worker_id,
        )
        running = asyncio.ensure_future(runner.run())
        self._held[order.order_id] = (order.lease_epoch, running)
        try:
            return await running
        except LeaseLost:
            return None
        except asyncio.CancelledError:
            if running.cancelled() and not _cancelling():
                return None  # the heartbeat found the lease gone and stopped it
            running.cancel()
            await asyncio.wait({running})
            raise
        finally:
            del self._held[order.order_id]

    async def _heartbeat(self) -> None:
        """Prolong what is held; stop what is not ours any more."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            leases = {order_id: epoch for order_id, (epoch, _) in self._held.items()}
            for lost in await self._office.renew(self._worker_id, leases) if leases else ():
                if held := self._held.get(lost):
                    held[1].cancel()


def _cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
