"""Timers: executions are woken when their time has come, by any server (TMR-06, TMR-07, O-16)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError
from noetl.control import timers
from noetl.control.timers import Timers
from noetl.engine.commands import PauseExecution, ResumeExecution
from noetl.operations.embedded import RunResult, compiled, driving
from noetl.store.contract import Commit
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from tests.control.waiting import TIMER, ControlPlane
from tests.fixtures.virtual_time import LoopClock, run_virtually

HOUR = 3600.0
FIXTURES = Path(__file__).parents[1] / "fixtures"


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.poisoned: set[str] = set()

    async def commit(self, commits: Sequence[Commit]) -> None:
        if any(commit.execution.execution_id in self.poisoned for commit in commits):
            raise BackendError("this row cannot be written")
        await super().commit(commits)
        self.sizes.append(len(commits))


def test_the_nearest_timer_comes_first_and_a_moved_one_counts_once() -> None:
    clock = Timers()
    for execution_id, moment in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("a", 0.5), ("b", None)):
        clock.set(execution_id, moment)

    assert clock.nearest() == 0.5
    assert clock.take_due(2.0, 10) == ["a", "c"]
    assert clock.nearest() is None


def test_only_an_earlier_timer_wakes_the_timer_queue() -> None:
    async def told() -> list[bool]:
        clock, seen = Timers(), []
        for moment in (5.0, 9.0, 2.0):
            clock.sooner.clear()
            clock.set(str(moment), moment)
            seen.append(clock.sooner.is_set())
        return seen

    assert asyncio.run(told()) == [True, False, True]


@pytest.mark.req("TMR-02", "TMR-06")
async def test_a_server_wakes_due_executions_and_no_others() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(TIMER, "x1")
    control_plane.clock.advance(HOUR / 2)
    await control_plane.start(TIMER, "x2")
    assert await control_plane.timer_queue.wake_due() == 0

    control_plane.clock.advance(HOUR / 2)
    assert await control_plane.timer_queue.wake_due() == 1

    assert await control_plane.ran("x1") == ["start", "woken"]
    assert await control_plane.status("x2") == "running"


@pytest.mark.req("TMR-06")
async def test_a_timer_that_came_due_during_an_outage_fires_at_once() -> None:
    first = ControlPlane()
    await first.start(TIMER)
    first.clock.advance(50 * HOUR)

    second = ControlPlane(first.store, first.clock, shared=True)
    await second.timer_queue.wake_due()

    assert await second.status() == "completed"
    fired = [event for event in await first.store.events("x1") if event.event_type == "timer.fired"]
    assert [event.ts for event in fired] == [first.clock.now()]


@pytest.mark.req("TMR-06", "TMR-02")
def test_many_executions_due_at_once_are_woken_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many in one transaction; between two of them others have their turn."""
    many = 1_000
    monkeypatch.setattr(timers, "MOST_AT_ONCE", 20)

    async def woken() -> tuple[Counting, int]:
        store = Counting()
        control_plane = ControlPlane(store, shared=True)
        await control_plane.start(TIMER, *(f"x{n}" for n in range(many)))
        control_plane.clock.advance(2 * HOUR)
        store.sizes.clear()
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(others()), asyncio.create_task(control_plane.timer_queue.serve_all())]
        while await store.due(now=control_plane.clock.now(), limit=1):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return store, turns

    store, turns = asyncio.run(woken())

    assert max(store.sizes) <= 20
    assert len(store.sizes) >= many / 20
    assert turns >= many / 20


@pytest.mark.req("TMR-06")
async def test_two_servers_wake_an_execution_once(tmp_path: Path) -> None:
    clock = ManualClock()
    one = ControlPlane(SqliteStore.open(tmp_path / "s.db"), clock, shared=True)
    other = ControlPlane(SqliteStore.open(tmp_path / "s.db"), clock, shared=True)
    await one.start(TIMER, *(f"x{n}" for n in range(20)))
    clock.advance(2 * HOUR)

    await asyncio.gather(one.timer_queue.wake_due(), other.timer_queue.wake_due())

    for number in range(20):
        assert (await one.types(f"x{number}")).count("timer.fired") == 1
        assert await one.status(f"x{number}") == "completed"
    await one.store.close()
    await other.store.close()


async def test_an_execution_that_cannot_be_woken_does_not_delay_the_others(caplog: pytest.LogCaptureFixture) -> None:
    store = Counting()
    control_plane = ControlPlane(store, shared=True)
    await control_plane.start(TIMER, "x1", "x2", "x3")
    control_plane.clock.advance(2 * HOUR)
    store.poisoned = {"x2"}

    await control_plane.timer_queue.wake_due()

    assert [await control_plane.status(one) for one in ("x1", "x2", "x3")] == ["completed", "running", "completed"]
    assert "execution x2 could not be woken" in caplog.text
    assert await control_plane.timer_queue.wake_due() == 0, "it is let be for a while"
    store.poisoned = set()
    control_plane.clock.advance(timers.ASIDE_S)
    await control_plane.timer_queue.wake_due()
    assert await control_plane.status("x2") == "completed"


@pytest.mark.req("SRV-07")
async def test_timers_of_a_paused_execution_fire_on_resume() -> None:
    """Timers keep their due time while paused; what fires is held (O-16)."""
    control_plane = ControlPlane(shared=True)
    await control_plane.start(TIMER)
    await control_plane.executions.control("x1", PauseExecution(at=control_plane.clock.now()))
    control_plane.clock.advance(2 * HOUR)
    assert await control_plane.timer_queue.wake_due() == 0
    assert "timer.fired" not in await control_plane.types()

    await control_plane.executions.control("x1", ResumeExecution(at=control_plane.clock.now()))
    await control_plane.timer_queue.wake_due()

    assert await control_plane.status() == "completed"


@pytest.mark.req("TMR-07")
def test_an_embedded_run_waits_for_its_own_timers_in_virtual_time() -> None:
    async def ran() -> RunResult:
        async with driving(":memory:", clock=LoopClock()) as driver:
            return await driver.run(compiled(FIXTURES / "F-002-J.yaml"))

    result = run_virtually(ran())

    assert result.ok
    assert result.duration_s == 9000.0


@pytest.mark.req("TMR-06")
def test_many_timers_of_one_process_fire_each_at_its_time() -> None:
    async def ran() -> list[RunResult]:
        async with driving(":memory:", clock=LoopClock()) as driver:
            text = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n" + TIMER
            ids = [await driver.start(text, {"naps": f"{3 - n}h"}) for n in range(3)]
            return [await driver.result(one) for one in ids]

    assert [result.duration_s for result in run_virtually(ran())] == [3 * HOUR, 2 * HOUR, HOUR]


@pytest.mark.req("TMR-06", "SRV-12")
def test_a_resumed_run_keeps_waiting_until_the_original_time(tmp_path: Path) -> None:
    db = tmp_path / "s.db"
    text = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n" + TIMER

    async def begun() -> str:
        async with driving(db, clock=LoopClock()) as driver:
            execution_id = await driver.start(text)
            await asyncio.sleep(HOUR / 4)
            return execution_id

    execution_id = run_virtually(begun())

    async def taken_up() -> RunResult:
        async with driving(db, clock=LoopClock()) as driver:
            await driver.take_up(execution_id)
            return await driver.result(execution_id)

    result = run_virtually(taken_up())

    assert result.ok
    assert result.duration_s == HOUR
