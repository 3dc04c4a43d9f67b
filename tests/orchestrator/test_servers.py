"""Any server may handle any execution: the log decides, memory follows (DESIGN §3, RELIABILITY 3.1)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.engine.commands import PauseExecution, ResumeExecution
from noetl.orchestrator import decisions
from noetl.orchestrator.kept_bytes import Bounds
from noetl.orchestrator.sweeping import sweeper
from noetl.records.envelope import Event
from noetl.records.orders import Verdict
from noetl.store.contract import Only
from noetl.store.memory import MemoryStore
from tests.conversing import net_of
from tests.orchestrator.servers import BACKENDS, servers
from tests.orchestrator.test_conduct import CHAIN, Office
from tests.orchestrator.test_steering import FORK

backends = pytest.mark.parametrize("backend", BACKENDS)


async def sweep(office: Office) -> None:
    await sweeper(office.conductor, office.store.shelf, office.clock).sweep()


@backends
@pytest.mark.req("SRV-12")
async def test_a_server_finds_the_orders_that_another_one_made(backend: str, tmp_path: Path) -> None:
    async with servers(backend, tmp_path) as (first, second):
        await first.start()

        [order] = (await second.turn(worker_id="w2")).orders
        answer = await second.turn(second.done(order, worker_id="w2"), worker_id="w2")

        assert [one.step for one in answer.orders] == ["b"]
        assert (await first.turn()).orders == (), "what the first one offered is taken"


@backends
async def test_a_command_for_an_execution_that_another_server_moved_is_decided_from_the_log(
    backend: str, tmp_path: Path
) -> None:
    async with servers(backend, tmp_path) as (first, second):
        await first.start()
        await second.conductor.control("x1", PauseExecution(at=1.0))

        assert await first.conductor.control("x1", PauseExecution(at=2.0)) is Verdict.DUPLICATE
        assert (await first.turn()).orders == ()
        await first.conductor.control("x1", ResumeExecution(at=3.0))
        assert len((await second.turn()).orders) + len((await first.turn()).orders) == 1


@backends
async def test_two_servers_race_for_every_order_and_each_is_taken_once(backend: str, tmp_path: Path) -> None:
    async with servers(backend, tmp_path) as both:
        net = net_of(FORK)
        starts = (both[n % 2].conductor.start(net, execution_id=f"x{n}", trace_id="t", payload={}) for n in range(12))
        await asyncio.gather(*starts)
        done: list[str] = []

        async def work(number: int) -> None:
            office, worker_id = both[number % 2], f"w{number}"
            reports: list[Any] = []
            idle = 0
            while idle < 5:
                answer = await office.turn(*reports, capacity=2, worker_id=worker_id)
                assert set(answer.verdicts) <= {Verdict.ACCEPTED}
                done.extend(report.order_id for report in reports)
                reports = [office.done(order, worker_id=worker_id) for order in answer.orders]
                idle = 0 if reports else idle + 1
                office.clock.advance(0.11)  # a worker that finds nothing makes its server look in the store

        async with asyncio.timeout(60):
            await asyncio.gather(*(work(number) for number in range(4)))

        assert len(done) == len(set(done)) == 36
        for n in range(12):
            events = await both[0].store.events(f"x{n}")
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            kinds = [event.event_type for event in events]
            assert kinds.count("playbook.processed") == 1
            assert kinds.count("token.claimed") == 4  # one is the server's own
            row = await both[0].store.execution(f"x{n}")
            assert row is not None
            assert row.status == "completed"


class Reading(MemoryStore):
    """Counts the events that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def events(self, execution_id: str, *, after: int = 0, only: Only | None = None) -> list[Event]:
        found = await super().events(execution_id, after=after, only=only)
        self.read += len(found)
        return found


async def test_only_the_tail_is_read_of_an_execution_that_another_server_moved() -> None:
    store, clock = Reading(), Office().clock
    first, second = Office(store, shared=True, clock=clock), Office(store, shared=True, clock=clock)
    await first.start(FORK)
    [a, b] = (await first.turn(capacity=2)).orders
    await second.turn(second.done(a), capacity=0)
    before = (await store.execution("x1")).last_seq  # type: ignore[union-attr]
    store.read = 0
    clock.advance(decisions.TRUST_S + 1)

    answer = await first.turn(first.done(b), capacity=0)

    assert answer.verdicts == (Verdict.ACCEPTED,)
    assert 0 < store.read < before / 2


async def test_an_execution_that_only_this_server_moves_is_never_read_again() -> None:
    store = Reading()
    office = Office(store, shared=True)
    await office.start()
    order = await office.claim()
    await office.turn(office.done(order))

    assert store.read == 0


async def test_memory_holds_no_more_executions_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "BOUNDS", Bounds(most=3))
    office = Office(shared=True)
    net = net_of(CHAIN)
    waiting = None
    for n in range(10):
        await office.conductor.start(net, execution_id=f"x{n}", trace_id="t", payload={})
        if n == 0:
            waiting = asyncio.create_task(office.conductor.ended("x0"))
            await asyncio.sleep(0.01)

    assert len(list(office.conductor._hot)) <= 3
    assert "x0" in office.conductor._hot, "somebody waits for its end"
    for _ in range(20):
        answer = await office.turn(capacity=0)
        for order in (await office.turn()).orders:
            answer = await office.turn(office.done(order), capacity=0)
            assert answer.verdicts == (Verdict.ACCEPTED,)
    assert waiting is not None
    assert (await waiting).status == "completed"
    rows = await office.store.executions()
    assert {row.status for row in rows} == {"completed"}


@pytest.mark.req("SRV-12")
async def test_a_server_starts_with_nothing_in_memory_however_much_is_open() -> None:
    first = Office(shared=True)
    net = net_of(CHAIN)
    starts = (first.conductor.start(net, execution_id=f"x{n}", trace_id="t", payload={}) for n in range(2_000))
    await asyncio.gather(*starts)

    second = Office(first.store, shared=True, clock=first.clock)
    await sweep(second)

    assert len(list(second.conductor._hot)) == 0
    assert len((await second.turn(capacity=10)).orders) == 10


async def test_the_end_that_another_server_decided_is_told_to_who_waits_here() -> None:
    first = Office(shared=True)
    second = Office(first.store, shared=True, clock=first.clock)
    await first.start("workflow: [{step: start, tool: {kind: python, code: x}}]")
    waiting = asyncio.create_task(first.conductor.ended("x1"))
    await asyncio.sleep(0.01)
    [order] = (await second.turn()).orders
    await second.turn(second.done(order), capacity=0)

    await sweep(first)

    async with asyncio.timeout(60):
        assert (await waiting).status == "completed"


async def test_cancelling_a_parent_reaches_children_that_this_server_has_never_seen() -> None:
    first = Office(shared=True)
    await first.start()
    await first.conductor.begin(_child_of("x1", "c1"))
    second = Office(first.store, shared=True, clock=first.clock)

    assert await second.conductor.cancel("x1", "enough") is Verdict.ACCEPTED

    child = await first.store.execution("c1")
    assert child is not None
    assert child.status == "cancelled"


def _child_of(parent: str, execution_id: str) -> Any:
    from noetl.orchestrator.starts import Start

    return Start(net=net_of(CHAIN), execution_id=execution_id, trace_id="t", payload={}, parent_execution_id=parent)


async def test_orders_are_found_by_the_sweep_and_rung_for() -> None:
    first = Office(shared=True)
    await first.start()
    second = Office(first.store, shared=True, clock=first.clock)
    waiting = asyncio.create_task(second.bell.wait(["default"], timeout=60))
    await asyncio.sleep(0)

    await sweep(second)

    assert await waiting is True
