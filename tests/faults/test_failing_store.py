"""A store of which one method fails now and then, before or after it has done its work: accepted executions end once,
and nothing is reported that is not stored (reliability.md §4.4, F4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, NoetlError
from noetl.control.assembly import assemble
from noetl.control.claiming.local_control_plane import LocalControlPlane
from noetl.control.claiming.pools import Pool
from noetl.control.commit.sharing import SharedExecutions
from noetl.events.loops import IterationDone, IterationStarted
from noetl.events.orders import Entry, Order, Report, Timed, Turn
from noetl.events.outcomes import TaskResult
from noetl.events.steps import StepDone
from noetl.store.contract import ConflictError, Store
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.sqlite.store import SqliteStore
from noetl.store.wakeups import MemoryWakeups
from tests.cluster.checkers import fenced_changes_nothing, items_count_once, no_gaps, one_end_each
from tests.engine_script import net_of
from tests.faults.store_methods import METHODS

WORK = """
workload: {numbers: [1, 2, 3, 4]}
workflow:
  - step: start
    loop: {in: "{{ workload.numbers }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: python, code: x}
    next: {arcs: [{step: rest}]}
  - {step: rest, timer: {duration: 5}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: python, code: x}}
"""
EXECUTIONS = ("x1", "x2", "x3")
SHARE = 0.25  # of its calls
TRIES = 20
PATIENCE = 600  # turns, and moments in between
NESTED = ("children",)  # called where there are nested executions only


class Failing:
    """The store behind it, but for one method."""

    def __init__(self, store: Store, method: str = "", when: str = "") -> None:
        self._store, self._method, self._when = store, method, when
        self._dice = Random(f"{method} {when}")
        self.calls: Counter[str] = Counter()
        self.failures = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def called(*values: Any, **named: Any) -> Any:
            self.calls[name] += 1
            is_spared = self.failures > 0 and self._dice.random() > SHARE  # the first is not
            if name != self._method or is_spared:
                return await found(*values, **named)
            self.failures += 1
            if self._when == "after":
                await found(*values, **named)
            raise BackendError(f"{name} failed")

        return called


class Server:
    def __init__(self, store: Any, clock: ManualClock) -> None:
        self.store = store
        assembly = assemble(store, MemoryResults(), MemoryWakeups(), clock, sharing=SharedExecutions())
        self.executions, self.for_workers, self.pools = assembly.executions, assembly.for_workers, assembly.pools
        self.lost_work, self.timer_queue = assembly.background_jobs.lost_work, assembly.background_jobs.timer_queue


class Yard:
    """Two servers on it, and a worker that goes to one and the other; all of them try again when something fails."""

    def __init__(self, store: Failing) -> None:
        self.clock = ManualClock()
        self.servers = [Server(store, self.clock) for _ in range(2)]
        self._turns = 0
        self._reports: list[Report] = []
        self._held: dict[str, int] = {}

    async def start(self, execution_id: str) -> None:
        net = net_of(WORK)
        for _ in range(TRIES):
            try:
                await self.servers[0].executions.start(net, execution_id=execution_id, trace_id="t", payload={})
            except ConflictError:
                return  # it was stored after all
            except BackendError:
                continue
            return
        raise AssertionError(f"{execution_id} could not be started")

    async def step(self) -> None:
        """A moment passes, and everybody does what there is to do."""
        self.clock.advance(0.5)
        self._turns += 1
        server = self.servers[self._turns % 2]
        try:
            await self._take_turn(server.for_workers)
            await server.for_workers.renew("w", self._held)
            await server.timer_queue.wake_due()
            await server.store.next_due()
        except NoetlError:
            return
        finally:
            await server.lost_work.sweep()

    async def _take_turn(self, for_workers: LocalControlPlane) -> None:
        reports = tuple(self._reports)
        turn = Turn(worker_id="w", capacity=2, reports=reports, holding=self._held)
        answer = await for_workers.turn(turn)
        assert len(answer.verdicts) == len(reports)
        for report in reports:
            self._held.pop(report.order_id, None)
        self._reports = self._reports[len(reports) :]
        for order in answer.orders:
            self._held[order.order_id] = order.lease_epoch
            self._reports.append(self._done(order))

    def _done(self, order: Order) -> Report:
        entries: list[Entry] = [StepDone(result=TaskResult())]
        if (span := order.iterations) is not None:
            indices = span.indices or range(span.first, span.last + 1)
            entries = []
            for index in indices:
                path = (*span.path, index)
                if index not in span.begun:
                    entries.append(IterationStarted(index=index, path=path))
                entries.append(IterationDone(index=index, path=path, result=TaskResult()))
        timed = tuple(Timed(self.clock.now(), entry) for entry in entries)
        return Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id="w",
            entries=timed,
        )


def _opened(backend: str, folder: Path) -> Store:
    return MemoryStore() if backend == "memory" else SqliteStore.open(folder / "s.db")


async def _driven(store: Store, failing: Failing) -> None:
    yard = Yard(failing)
    await yard.servers[0].pools.put(Pool(name="default", capacity=10))
    for execution_id in EXECUTIONS:
        await yard.start(execution_id)
    for _ in range(PATIENCE):
        await yard.step()
        rows = [await store.execution(one) for one in EXECUTIONS]
        if all(row is not None and row.finished_at is not None for row in rows):
            break
    for execution_id in EXECUTIONS:
        log = await store.events(execution_id)
        row = await store.execution(execution_id)
        assert row is not None
        assert row.status == "completed", [event.event_type for event in log][-5:]
        no_gaps(log)
        one_end_each(log)
        fenced_changes_nothing(log)
        items_count_once(log)
        assert await store.orders(execution_id) == []


@pytest.mark.req("SRV-05", "SRV-12", "EVT-01")
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", METHODS)
async def test_accepted_executions_end_if_any_store_method_fails_at_times(
    tmp_path: Path, backend: str, method: str, when: str
) -> None:
    store = _opened(backend, tmp_path)
    try:
        failing = Failing(store, method, when)
        await _driven(store, failing)
        assert failing.failures, "it was put to the test"
    finally:
        await store.close()


async def test_every_used_store_method_is_tested() -> None:
    store = MemoryStore()
    usual = Failing(store)
    await _driven(store, usual)
    assert usual.calls.keys() - set(METHODS) - set(NESTED) == set()
