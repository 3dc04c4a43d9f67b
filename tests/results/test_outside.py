"""Results in a remote store: only executions that need a value wait for it, and no event refers to a missing value."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError
from noetl.control.assembly import Assembly, assemble
from noetl.control.commit.sharing import SharedExecutions
from noetl.events.executions import ExecutionRequested
from noetl.events.loops import IterationDone, IterationStarted
from noetl.events.orders import Order, Report, ReportResult, Timed, Turn
from noetl.events.outcomes import TaskResult
from noetl.operations.embedded import arun, resume
from noetl.store.contract import Commit, ResultStore, Store
from noetl.store.memory import MemoryStore
from noetl.store.results.files import FileResults, MemoryResults
from noetl.store.results.remote import ObjectResults
from noetl.store.wakeups import MemoryWakeups
from tests.engine_script import playbook
from tests.results.large_results import LARGE, done, start
from tests.servers.s3 import ObjectServer

LOOP = """
executor: {spec: {policy: {results: {reference_first: true}}}}
workflow:
  - step: start
    loop: {in: "{{ range(40) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 40}}
    tool: {kind: python, code: x}
    next: {arcs: [{step: b, when: "{{ start.data | length == 40 and start.data[39] == 39 }}"}]}
  - {step: b, tool: {kind: python, code: x}}
"""


class Watched(MemoryStore):
    """Notes what events name that is not stored when they are."""

    def __init__(self, stored: Any) -> None:
        super().__init__()
        self._stored, self.dangling = stored, set[str]()

    async def commit(self, commits: Sequence[Commit]) -> None:
        await super().commit(commits)
        self.dangling |= {one for one in await self.checksums() if one not in self._stored()}


@pytest.fixture
def objects() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        yield server


@asynccontextmanager
async def conducting(store: Store, results: ResultStore) -> AsyncIterator[Assembly]:
    control = assemble(store, results, MemoryWakeups(), ManualClock(), sharing=SharedExecutions())
    try:
        yield control
    finally:
        await control.close()
        results.close()


@asynccontextmanager
async def outside(objects: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Assembly, Watched]]:
    store = Watched(lambda: {path.rpartition("/")[2].removesuffix(".json") for path in objects.objects})
    async with conducting(store, ObjectResults(objects.named(monkeypatch))) as control:
        yield control, store


async def claim(control: Assembly) -> Order:
    [order] = (await control.for_workers.turn(Turn(worker_id="w1", capacity=1))).orders
    return order


async def reached(objects: ObjectServer) -> None:
    """Somebody waits at the store."""
    assert await asyncio.to_thread(objects.came.wait, 60)


@pytest.mark.req("RES-01", "RES-03")
async def test_a_slow_results_store_delays_only_executions_that_use_it(
    objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(objects, monkeypatch) as (control, store):
        await start(control, "x2")
        order = await claim(control)
        objects.hold()
        held = asyncio.create_task(start(control, "x1", large=LARGE))
        await reached(objects)

        told = await control.for_workers.turn(Turn(worker_id="w1", reports=(done(order),), capacity=1))
        await start(control, "x3")

        assert told.verdicts == (ReportResult.ACCEPTED,)
        assert [one.step for one in told.orders] == ["b"]
        assert not held.done()
        assert await store.execution("x1") is None, "nothing is recorded before what it names is there"
        objects.let_go()
        await held
        assert await store.execution("x1") is not None
        assert not store.dangling


@pytest.mark.req("RES-03")
async def test_a_report_with_a_stored_value_delays_no_other_turn(
    objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(objects, monkeypatch) as (control, store):
        await start(control, "x1")
        await start(control, "x2")
        orders = {order.execution_id: order for order in [await claim(control), await claim(control)]}
        objects.hold()
        held = asyncio.create_task(
            control.for_workers.turn(Turn(worker_id="w1", reports=(done(orders["x1"], LARGE),), capacity=0))
        )
        await reached(objects)

        other = await control.for_workers.turn(Turn(worker_id="w2", reports=(done(orders["x2"]),), capacity=1))

        assert other.verdicts == (ReportResult.ACCEPTED,)
        assert [one.execution_id for one in other.orders] == ["x2"]
        assert not held.done()
        objects.let_go()
        assert (await held).verdicts == (ReportResult.ACCEPTED,)
        assert not store.dangling


@pytest.mark.req("RES-06", "LOOP-13")
async def test_stored_results_that_a_decision_reads_are_fetched_together(
    objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of a loop is made of forty stored ones; a server that has none of them at hand fetches all of them."""
    async with outside(objects, monkeypatch) as (first, store):
        await start(first, "x1", LOOP)
        ran: list[Report] = []
        while orders := (await first.for_workers.turn(Turn(worker_id="w1", capacity=9))).orders:
            for order in orders:
                ran += looped(order)
        second = assemble(
            store, ObjectResults("s3://bucket"), MemoryWakeups(), ManualClock(), sharing=SharedExecutions()
        )
        for report in ran:
            assert (await second.for_workers.turn(Turn(worker_id="w1", reports=(report,)))).verdicts == (
                ReportResult.ACCEPTED,
            )

        [order] = (await second.for_workers.turn(Turn(worker_id="w1", capacity=1))).orders

        assert order.step == "b"
        assert not store.dangling
        await second.close()


def looped(order: Order) -> list[Report]:
    assert order.iterations is not None
    entries = []
    for index in range(order.iterations.first, order.iterations.last + 1):
        entries.append(Timed(1.0, IterationStarted(path=(index,), index=index)))
        entries.append(Timed(1.0, IterationDone(path=(index,), index=index, result=TaskResult(result=index))))
    return [msgspec.structs.replace(done(order), entries=tuple(entries))]


@pytest.mark.req("SRV-12", "RES-06")
async def test_an_execution_with_references_to_a_slow_store_is_claimed_after_loading(
    objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(objects, monkeypatch) as (first, store):
        await start(first, "x1", large=LARGE)
        await start(first, "x2")
        second = assemble(
            store, ObjectResults("s3://bucket"), MemoryWakeups(), ManualClock(), sharing=SharedExecutions()
        )
        objects.hold()

        at_once = (await second.for_workers.turn(Turn(worker_id="w1", capacity=5))).orders

        assert [one.execution_id for one in at_once] == ["x2"]
        objects.let_go()
        async with asyncio.timeout(60):
            while not (later := (await second.for_workers.turn(Turn(worker_id="w1", capacity=5))).orders):
                await asyncio.sleep(0.01)
        assert [(one.execution_id, one.workload.get("large")) for one in later] == [("x1", LARGE)]
        await second.close()


class Flaky(MemoryResults):
    """Outside, and away until somebody says that it is back."""

    store, is_outside, is_away = "flaky", True, False

    async def send(self, body: bytes) -> None:
        if self.is_away:
            raise BackendError("the result store is away")
        await super().send(body)

    async def fetch(self, checksum: str) -> bytes:
        if self.is_away:
            raise BackendError("the result store is away")
        return await super().fetch(checksum)


@pytest.mark.req("RES-01")
async def test_an_outage_of_the_results_store_loses_nothing_and_the_execution_continues() -> None:
    store, results = MemoryStore(), Flaky()
    async with conducting(store, results) as control:
        await start(control, "x1")
        order = await claim(control)
        results.is_away = True
        turn = Turn(worker_id="w1", reports=(done(order, LARGE),), capacity=1)

        with pytest.raises(BackendError, match="away"):
            await control.for_workers.turn(turn)
        with pytest.raises(BackendError, match="away"):
            await start(control, "x2", large=LARGE)
        assert await store.execution("x2") is None
        results.is_away = False

        answer = await control.for_workers.turn(turn)
        assert answer.verdicts == (ReportResult.ACCEPTED,)
        assert (await claim(control)).step == "b"
        await start(control, "x2", large=LARGE)
        [requested] = [one.payload for one in await store.events("x2") if isinstance(one.payload, ExecutionRequested)]
        assert requested.apart


@pytest.mark.req("RES-06")
async def test_a_deleted_result_is_reported_as_missing() -> None:
    store, results = MemoryStore(), Flaky()
    async with conducting(store, results) as first:
        await start(first, "x1", large=LARGE)
        results._bodies.clear()
        async with conducting(store, results) as second:
            assert (await second.for_workers.turn(Turn(worker_id="w1", capacity=1))).orders == ()
            with pytest.raises(BackendError, match=r"result\.missing"):
                await second.executions.execution("x1")


EMBEDDED = """
workload: {given: ""}
workflow:
  - step: start
    tool: [{name: one, kind: python, code: "result = 'y' * 200000"}]
    next: {arcs: [{step: many, when: "{{ start.data | length == 200000 and workload.given | length == 200000 }}"}]}
  - step: many
    loop: {in: "{{ range(3) | list }}", iterator: n}
    tool: [{name: part, kind: python, code: "result = 'z' * 100000"}]
    next: {arcs: [{step: last, args: {all: "{{ many.data }}"}}]}
  - step: last
    tool: [{name: end, kind: python, args: {all: "{{ args.all }}"}, code: "result = [len(one) for one in all]"}]
"""


@pytest.mark.req("RES-01", "WRK-08")
async def test_an_embedded_run_can_use_an_object_store_for_results(
    objects: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOETL_RESULTS", objects.named(monkeypatch))
    db = tmp_path / "store.db"

    result = await arun(playbook(EMBEDDED), {"given": LARGE}, db=db)

    assert (result.status, result.result) == ("completed", [100_000] * 3), result.error
    assert len(objects.objects) >= 4
    assert not (tmp_path / "store.db.results").exists()
    resumed = await resume(result.execution_id, db=db)
    assert resumed.result == result.result


class HeldDisk(FileResults):
    """A disk that is busy, until somebody lets go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.free, self.came = threading.Event(), threading.Event()

    def _write(self, path: Path, body: Iterable[bytes], size: int) -> None:
        self.came.set()
        self.free.wait(100)
        super()._write(path, body, size)


@pytest.mark.req("RES-01")
async def test_writing_a_large_file_does_not_block_the_server(tmp_path: Path) -> None:
    store, results = MemoryStore(), HeldDisk(tmp_path)
    async with conducting(store, results) as control:
        held = asyncio.create_task(start(control, "x1", large="x" * 3_000_000))
        assert await asyncio.to_thread(results.came.wait, 60)

        await start(control, "x2")

        assert (await claim(control)).execution_id == "x2"
        assert not held.done()
        results.free.set()
        await held
        async with conducting(store, results) as other:
            assert len((await other.executions.execution("x1")).execution.origin.workload["large"]) == 3_000_000
