"""Any server may handle any execution: the log decides, memory follows (design.md §3, reliability.md §3.1)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.control.commit import sharing
from noetl.control.commit.memory_use import Bounds
from noetl.engine.commands import PauseExecution, ResumeExecution
from noetl.events.envelope import Event
from noetl.events.orders import ReportResult
from noetl.store.contract import EventFilter
from noetl.store.memory import MemoryStore
from tests.control.control_plane import CHAIN, FORK, ControlPlane
from tests.control.servers import BACKENDS, servers
from tests.engine_script import net_of
from tests.narrowing import present

backends = pytest.mark.parametrize("backend", BACKENDS)


async def sweep(control_plane: ControlPlane) -> None:
    await control_plane.background_jobs.lost_work.sweep()


@backends
@pytest.mark.req("SRV-12")
async def test_a_server_finds_orders_created_by_another_server(backend: str, tmp_path: Path) -> None:
    async with servers(backend, tmp_path) as (first, second):
        await first.start()

        [order] = (await second.turn(worker_id="w2")).orders
        answer = await second.turn(second.done(order, worker_id="w2"), worker_id="w2")

        assert [one.step for one in answer.orders] == ["b"]
        assert (await first.turn()).orders == (), "what the first one offered is taken"


@backends
async def test_a_command_for_an_execution_moved_by_another_server_is_decided_from_the_log(
    backend: str, tmp_path: Path
) -> None:
    async with servers(backend, tmp_path) as (first, second):
        await first.start()
        await second.executions.control("x1", PauseExecution(at=1.0))

        assert await first.executions.control("x1", PauseExecution(at=2.0)) is ReportResult.DUPLICATE
        assert (await first.turn()).orders == ()
        await first.executions.control("x1", ResumeExecution(at=3.0))
        assert len((await second.turn()).orders) + len((await first.turn()).orders) == 1


@backends
async def test_two_servers_race_for_every_order_and_each_is_claimed_once(backend: str, tmp_path: Path) -> None:
    async with servers(backend, tmp_path) as both:
        net = net_of(FORK)
        starts = (both[n % 2].executions.start(net, execution_id=f"x{n}", trace_id="t", payload={}) for n in range(12))
        await asyncio.gather(*starts)
        done: list[str] = []

        async def work(number: int) -> None:
            control_plane, worker_id = both[number % 2], f"w{number}"
            reports: list[Any] = []
            idle = 0
            while idle < 5:
                answer = await control_plane.turn(*reports, capacity=2, worker_id=worker_id)
                assert set(answer.verdicts) <= {ReportResult.ACCEPTED}
                done.extend(report.order_id for report in reports)
                reports = [control_plane.done(order, worker_id=worker_id) for order in answer.orders]
                idle = 0 if reports else idle + 1
                control_plane.clock.advance(0.11)  # a worker that finds nothing makes its server look in the store

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

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        found = await super().events(execution_id, after=after, only=only)
        self.read += len(found)
        return found


async def test_only_the_tail_of_an_execution_moved_by_another_server_is_read() -> None:
    store, clock = Reading(), ControlPlane().clock
    first, second = ControlPlane(store, shared=True, clock=clock), ControlPlane(store, shared=True, clock=clock)
    await first.start(FORK)
    [a, b] = (await first.turn(capacity=2)).orders
    await second.turn(second.done(a), capacity=0)
    before = present(await store.execution("x1")).last_seq
    store.read = 0
    clock.advance(sharing.TRUST_S + 1)

    answer = await first.turn(first.done(b), capacity=0)

    assert answer.verdicts == (ReportResult.ACCEPTED,)
    assert 0 < store.read < before / 2


async def test_an_execution_moved_only_by_this_server_is_never_read_again() -> None:
    store = Reading()
    control_plane = ControlPlane(store, shared=True)
    await control_plane.start()
    order = await control_plane.claim()
    await control_plane.turn(control_plane.done(order))

    assert store.read == 0


async def test_the_number_of_loaded_executions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing.SharedExecutions, "memory_bounds", Bounds(most=3))
    control_plane = ControlPlane(shared=True)
    net = net_of(CHAIN)
    waiting = None
    for n in range(10):
        await control_plane.executions.start(net, execution_id=f"x{n}", trace_id="t", payload={})
        if n == 0:
            waiting = asyncio.create_task(control_plane.executions.ended_execution("x0"))
            await asyncio.sleep(0.01)

    assert len(list(control_plane.executions._loaded)) <= 3
    assert "x0" in control_plane.executions._loaded, "somebody waits for its end"
    for _ in range(20):
        answer = await control_plane.turn(capacity=0)
        for order in (await control_plane.turn()).orders:
            answer = await control_plane.turn(control_plane.done(order), capacity=0)
            assert answer.verdicts == (ReportResult.ACCEPTED,)
    assert waiting is not None
    assert (await waiting).lifecycle.status == "completed"
    rows = await control_plane.store.executions()
    assert {row.status for row in rows} == {"completed"}


@pytest.mark.req("SRV-12")
async def test_a_server_starts_with_no_loaded_executions() -> None:
    first = ControlPlane(shared=True)
    net = net_of(CHAIN)
    starts = (first.executions.start(net, execution_id=f"x{n}", trace_id="t", payload={}) for n in range(2_000))
    await asyncio.gather(*starts)

    second = ControlPlane(first.store, shared=True, clock=first.clock)
    await sweep(second)

    assert len(list(second.executions._loaded)) == 0
    assert len((await second.turn(capacity=10)).orders) == 10


async def test_an_end_decided_by_another_server_reaches_local_waiters() -> None:
    first = ControlPlane(shared=True)
    second = ControlPlane(first.store, shared=True, clock=first.clock)
    await first.start("workflow: [{step: start, tool: {kind: python, code: x}}]")
    waiting = asyncio.create_task(first.executions.ended_execution("x1"))
    await asyncio.sleep(0.01)
    [order] = (await second.turn()).orders
    await second.turn(second.done(order), capacity=0)

    await sweep(first)

    async with asyncio.timeout(60):
        assert (await waiting).lifecycle.status == "completed"


async def test_cancelling_a_parent_cancels_children_that_this_server_has_not_loaded() -> None:
    first = ControlPlane(shared=True)
    await first.start()
    await first.executions.begin(_child_of("x1", "c1"))
    second = ControlPlane(first.store, shared=True, clock=first.clock)

    assert await second.executions.cancel("x1", "enough") is ReportResult.ACCEPTED

    child = await first.store.execution("c1")
    assert child is not None
    assert child.status == "cancelled"


def _child_of(parent: str, execution_id: str) -> Any:
    from noetl.engine.commands import Start

    return Start(net=net_of(CHAIN), execution_id=execution_id, trace_id="t", payload={}, parent_execution_id=parent)


async def test_the_sweep_finds_orders_and_sends_a_wake_up() -> None:
    first = ControlPlane(shared=True)
    await first.start()
    second = ControlPlane(first.store, shared=True, clock=first.clock)
    waiting = asyncio.create_task(second.wakeups.wait(["default"], timeout=60))
    await asyncio.sleep(0)

    await sweep(second)

    assert await waiting is True
