"""A control plane under test, with access to its store, clock and events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.control.claiming.orders import WorkerAbilities
from noetl.control.claiming.ready_orders import LocalWorker
from noetl.control.commit.effects import Listeners, Stop
from noetl.control.commit.sharing import OwnExecutions, SharedExecutions
from noetl.events.envelope import Event
from noetl.events.orders import Entry, Order, Report, Timed, Turn, TurnAnswer
from noetl.events.outcomes import TaskResult
from noetl.events.steps import StepDone
from noetl.store.contract import Commit
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.engine_script import net_of

CHAIN = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {arcs: [{step: b}]}
  - step: b
    tool: {kind: python, code: x}
"""


class Counting(MemoryStore):
    """A store that counts its commits, and can be made to refuse them."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Sequence[Commit]] = []
        self.broken: list[Exception] = []

    async def commit(self, commits: Sequence[Commit]) -> None:
        if self.broken:
            raise self.broken.pop(0)
        await super().commit(commits)
        self.commits.append(commits)


class ControlPlane:
    """A control plane with everything beside it that a test looks at."""

    def __init__(
        self,
        store: Any = None,
        *,
        shared: bool = False,
        clock: ManualClock | None = None,
        stop: Stop | None = None,
        local_worker: LocalWorker | None = None,
        ability_of: Callable[[str], WorkerAbilities] | None = None,
    ) -> None:
        self.store = store if store is not None else Counting()
        self.clock = clock or ManualClock()
        self.heard: list[Event] = []
        self.wakeups = MemoryWakeups()
        self.assembly = assemble(
            self.store,
            MemoryResults(),
            self.wakeups,
            self.clock,
            sharing=SharedExecutions() if shared else OwnExecutions(),
            listeners=Listeners(watch=self.heard.extend, stop=stop),
            local_worker=local_worker,
            ability_of=ability_of,
        )
        self.executions, self.for_workers = self.assembly.executions, self.assembly.for_workers
        self.pools, self.background_jobs = self.assembly.pools, self.assembly.background_jobs

    async def start(self, text: str = CHAIN, *, execution_id: str = "x1") -> None:
        await self.executions.start(net_of(text), execution_id=execution_id, trace_id="t1", payload={})

    async def turn(
        self, *reports: Report, capacity: int = 1, worker_id: str = "w1", pools: tuple[str, ...] = ("default",)
    ) -> TurnAnswer:
        turn = Turn(worker_id=worker_id, reports=reports, capacity=capacity, pools=pools)
        return await self.for_workers.turn(turn)

    async def claim(self) -> Order:
        [order] = (await self.turn()).orders
        return order

    def done(self, order: Order, result: object = None, *, worker_id: str = "w1") -> Report:
        return self.report(order, StepDone(result=TaskResult(result=result)), worker_id=worker_id)

    def report(self, order: Order, *entries: Entry, worker_id: str = "w1") -> Report:
        return Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id=worker_id,
            entries=tuple(Timed(self.clock.now(), entry) for entry in entries),
        )


FORK = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, spec: {priority: 5}}, {step: c, spec: {priority: 1}}]}
  - {step: a, tool: {kind: python, code: x}}
  - {step: b, tool: {kind: python, code: x}}
  - {step: c, tool: {kind: python, code: x}}
"""
