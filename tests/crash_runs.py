"""Stopping a run after any of its commits: a store that remembers them, and a driver that starts or takes up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.control.commit.effects import Listeners
from noetl.control.nested.calls import StoreLibrary
from noetl.engine.execution import Execution
from noetl.net.net import Net
from noetl.store.contract import Commit, Store
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.registry import Registry
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import Worker
from tests.playbook_runs import Scripted


class Recording(MemoryStore):
    """Keeps every commit in order, so that a test can begin again after any of them."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Sequence[Commit]] = []

    async def commit(self, commits: Sequence[Commit]) -> None:
        await super().commit(commits)
        self.commits.append(commits)


async def drive(
    net: Net,
    store: Store,
    scripted: Scripted,
    *,
    resumed: bool,
    library: StoreLibrary | None = None,
) -> Execution:
    """Start `net` as execution x1 on `store`, or take up x1 as another worker would; with its children, to the end."""
    dispatch, clock = MemoryWakeups(), ManualClock()
    handle = WorkerHandle("second" if resumed else "first", dispatch.notify_workers, HeldLeases(clock))
    listeners = Listeners(stop=handle.stop)
    executions, for_workers, *_ = assemble(
        store, MemoryResults(), dispatch, clock, library=library, listeners=listeners
    )
    worker = Worker(for_workers, dispatch, Registry({"python": scripted}), handle, clock=clock)
    serving = asyncio.create_task(worker.serve())
    try:
        async with asyncio.timeout(60):
            if resumed:
                await executions.take_up("x1", is_gone=lambda owner: True)
            else:
                await executions.start(net, execution_id="x1", trace_id="t1", payload={})
            ended = await executions.ended_execution("x1")
            while children := executions.open_children():
                await executions.ended_execution(children[0])
            return ended
    finally:
        serving.cancel()
        await asyncio.wait({serving})
