"""Two servers with workers and sweepers on one store, as a cluster runs them; one may vanish (SRV-12, P2, P9)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.control.background import lost_work
from noetl.control.commit.effects import Listeners
from noetl.control.commit.sharing import SharedExecutions
from noetl.events.orders import LeaseTerms
from noetl.store.contract import ResultStore, Store
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import Worker
from tests.control.servers import BACKENDS, connections
from tests.engine_script import net_of

FLOW = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: each}]}
  - {step: a, tool: {kind: python, code: x}, next: {arcs: [{step: end}]}}
  - step: each
    loop: {in: [1, 2, 3, 4, 5, 6, 7, 8, 9], iterator: item, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: python, code: x}
    next: {arcs: [{step: end}]}
  - {step: end, spec: {join: all}, tool: {kind: python, code: x}}
"""
RUNS = 12


class Counting:
    """A tool that takes a moment and counts."""

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self.runs += 1
        await asyncio.sleep(0)
        return ToolResult(result=1)

    async def close(self) -> None: ...

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


class Server:
    """A control plane, its worker and its lost_work, until it is stopped where it stands."""

    def __init__(self, name: str, store: Store, results: ResultStore, clock: ManualClock, tool: Counting) -> None:
        wakeups = MemoryWakeups()
        self.store = store
        handle = WorkerHandle(name, wakeups.notify_workers, HeldLeases(clock))
        self.executions, for_workers, background_jobs, *_ = self._control = assemble(
            store, results, wakeups, clock, sharing=SharedExecutions(), listeners=Listeners(stop=handle.stop)
        )
        worker = Worker(for_workers, wakeups, Registry({"python": tool}), handle, clock=clock, slots=3)
        serving = (worker.serve(), background_jobs.lost_work.serve())
        self._tasks = [asyncio.create_task(one) for one in serving]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._control.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_work, "EVERY_S", 0.02)


async def over(store: Store, clock: ManualClock) -> list[str]:
    """How all of them ended. Time passes no quicker than it does: whoever is there keeps its leases."""
    async with asyncio.timeout(100):
        while True:
            rows = await store.executions(limit=100)
            if all(row.finished_at is not None for row in rows):
                return [row.status for row in rows]
            await asyncio.sleep(0.02)
            clock.advance(0.02)


@pytest.mark.req("SRV-12")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("vanishes", [False, True])
async def test_two_servers_complete_everything_even_if_one_disappears(
    backend: str, vanishes: bool, tmp_path: Path
) -> None:
    clock, results, tool, net = ManualClock(), MemoryResults(), Counting(), net_of(FLOW)
    async with connections(backend, tmp_path, 2) as stores:
        servers = [Server(f"w{n}", store, results, clock, tool) for n, store in enumerate(stores)]
        try:
            for n in range(RUNS):
                executions = servers[n % 2].executions
                await executions.start(net, execution_id=f"x{n}", trace_id="t", payload={})
            if vanishes:
                await servers.pop(0).stop()
                clock.advance(LeaseTerms().ttl_s + 1)  # its leases run out
            statuses = await over(servers[-1].store, clock)
        finally:
            for server in servers:
                await server.stop()
        assert statuses == ["completed"] * RUNS
        for n in range(RUNS):
            kinds = [event.event_type for event in await stores[-1].events(f"x{n}")]
            assert kinds.count("loop.iteration.done") == 9
            assert kinds.count("playbook.processed") == kinds.count("loop.done") == 1
            assert kinds.count("step.done") == 3
        assert tool.runs >= RUNS * 12
        if not vanishes:
            assert tool.runs == RUNS * 12, "nothing was done twice"
