"""Writes a store as the program that is installed leaves it, for `test_stores`: `python store_writing.py sqlite FILE`
or `postgres URL`. Run it with the program of the day before a migration is added, and keep its dump.

It asks for little, so that older programs can run it: nothing of the tests, and what the rooms were always called.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.control.commit.sharing import SharedExecutions
from noetl.events.orders import Turn
from noetl.operations.embedded import compiled
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.registry import Registry
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import Worker

PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: old, path: upgrade/old}
workload: {n: 1, rest: 86400}
workflow:
  - step: start
    tool:
      kind: python
      args: {n: "{{ workload.n }}"}
      code: "result = n * 2"
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {double: "{{ outcome.result }}"}}}}]}}
    next: {arcs: [{step: rest}]}
  - {step: rest, timer: {duration: "{{ workload.rest }}"}}
"""
AT = 1_700_000_000.0


async def opened(kind: str, place: str) -> Any:
    if kind == "sqlite":
        from noetl.store.sqlite.store import SqliteStore

        return SqliteStore.open(Path(place))
    from noetl.store.postgres.store import PostgresStore

    return await PostgresStore.open(place)


async def write(kind: str, place: str) -> None:
    """An execution that is over, one that waits in a timer, and one whose order is held by a worker that is gone."""
    store, clock, wakeups, net = await opened(kind, place), ManualClock(AT), MemoryWakeups(), compiled(PLAYBOOK)
    control = assemble(store, MemoryResults(), wakeups, clock, sharing=SharedExecutions())
    executions, handle = control.executions, WorkerHandle("elsewhere:1:1", wakeups.notify_workers, HeldLeases(clock))
    worker = Worker(control.for_workers, wakeups, Registry(), handle, clock=clock)
    serving = asyncio.create_task(worker.serve())
    await executions.start(net, execution_id="over", trace_id="t", payload={"n": 3, "rest": 1})
    await executions.start(net, execution_id="timed", trace_id="t", payload={"n": 5})
    while any([(await store.execution(one)).wake_at is None for one in ("over", "timed")]):
        await asyncio.sleep(0.01)
    clock.advance(2)
    await control.background_jobs.timer_queue.wake_due()
    while (await store.execution("over")).finished_at is None:
        await asyncio.sleep(0.01)
    serving.cancel()
    await asyncio.wait({serving})
    await executions.start(net, execution_id="held", trace_id="t", payload={"n": 7, "rest": 1})
    answer = await control.for_workers.turn(Turn(worker_id="elsewhere:2:2", capacity=1))
    assert [order.execution_id for order in answer.orders] == ["held"]
    await store.close()


if __name__ == "__main__":
    asyncio.run(write(*sys.argv[1:3]))
