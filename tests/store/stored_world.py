"""A store with executions at every stage."""

from __future__ import annotations

import msgspec

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.engine.commands import PauseExecution
from noetl.events.orders import Order, Report, ReportResult, Timed, Turn
from noetl.events.steps import StepDone
from noetl.store.contract import ExecutionRow, OrderRow, Store
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.engine_script import net_of

FORKED = """
executor: {spec: {policy: {limits: {max_payload_bytes: 100}}}}
workload: {big: small}
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}
  - step: b
    tool: {kind: python, code: x}
  - step: c
    loop: {in: [1, 2, 3], iterator: n}
    tool: {kind: python, code: x}
"""


class World:
    """Executions at every stage: begun, claimed, forked, paused, over."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, ManualClock()
        control = assemble(store, MemoryResults(), MemoryWakeups(), self.clock)
        self.executions, self.for_workers = control.executions, control.for_workers
        self.held: dict[str, Order] = {}

    async def make(self) -> None:
        await self.start("x1")
        await self.start("x2")
        await self.done(await self.claim())
        await self.claim()
        await self.start("x3")
        await self.executions.control("x3", PauseExecution(at=self.clock.now()))
        await self.start("x4")
        await self.executions.cancel("x4", "enough")

    async def start(self, execution_id: str) -> None:
        self.clock.advance(1.0)
        payload = {"big": "b" * 300}
        await self.executions.start(
            net_of(FORKED), execution_id=execution_id, trace_id="t" + execution_id, payload=payload
        )

    async def claim(self) -> Order:
        [order] = (await self.for_workers.turn(Turn(worker_id="w1", capacity=1))).orders
        return order

    def end(self, order: Order) -> Report:
        return Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id="w1",
            entries=(Timed(self.clock.now(), StepDone()),),
        )

    async def done(self, order: Order) -> ReportResult:
        return (await self.for_workers.turn(Turn(worker_id="w1", reports=(self.end(order),)))).verdicts[0]


async def rows(store: Store) -> tuple[list[ExecutionRow], list[OrderRow]]:
    executions = await store.executions()
    orders = [order for one in executions for order in await store.orders(one.execution_id)]
    return executions, [msgspec.structs.replace(order, lease_until=None) for order in orders]
