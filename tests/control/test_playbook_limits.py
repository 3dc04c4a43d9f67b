"""How many executions of a playbook run at once, on one server or several (beyond.md §1, design.md §8)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.control.playbook_limits import BEGINS_WITHIN_S, GROUP_KIND, HELD
from noetl.events.control import PlaybookPaused
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.operations.embedded import RunResult, driving
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from tests.control.limited_playbooks import limited, statuses
from tests.control.waiting import ControlPlane
from tests.engine_script import playbook
from tests.fixtures.virtual_time import LoopClock, run_virtually
from tests.narrowing import payload, payloads, present


async def paused_because(control_plane: ControlPlane, execution_id: str) -> list[str | None]:
    events = await control_plane.store.events(execution_id)
    return [one.reason for one in payloads(events, PlaybookPaused)]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_start_over_the_limit_is_accepted_and_continues_when_another_ends(kind: str, tmp_path: Path) -> None:
    control_plane = ControlPlane(
        MemoryStore() if kind == "memory" else SqliteStore.open(tmp_path / "s.db"), shared=True
    )
    await control_plane.start(limited(), "x1", "x2", "x3")
    assert await statuses(control_plane, "x1", "x2", "x3") == ["running", "paused", "paused"]
    assert await paused_because(control_plane, "x2") == [HELD]

    await control_plane.executions.cancel("x1", "enough")
    await control_plane.background_jobs.gate.sweep()

    assert await statuses(control_plane, "x1", "x2", "x3") == ["cancelled", "running", "paused"]
    await control_plane.executions.cancel("x3", "no longer wanted")
    await control_plane.executions.cancel("x2", "enough")
    await control_plane.background_jobs.gate.sweep()
    await control_plane.start(limited(), "x4")
    assert await control_plane.status("x4") == "running"
    await control_plane.store.close()


async def test_each_key_has_a_limit_of_its_own() -> None:
    control_plane, how = ControlPlane(shared=True), 'limit: 1, key: "{{ workload.customer }}"'
    await control_plane.start(limited(how), "x1", "x2", customer="ann")
    await control_plane.start(limited(how), "x3", customer="bob")

    assert await statuses(control_plane, "x1", "x2", "x3") == ["running", "paused", "running"]


async def test_a_start_over_the_limit_may_be_dropped() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited("limit: 2, on_limit: drop"), "x1", "x2", "x3")

    assert await statuses(control_plane, "x1", "x2", "x3") == ["running", "running", "failed"]
    [*_, last] = await control_plane.store.events("x3")
    error = present(payload(last, PlaybookProcessed).error)
    assert error.message == '2 of "tests/test" run already, which is its limit'


async def test_the_oldest_execution_can_be_cancelled_for_the_newest() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited("limit: 2, on_limit: cancel_oldest"), "x1", "x2", "x3")

    assert await statuses(control_plane, "x1", "x2", "x3") == ["cancelled", "running", "running"]


@pytest.mark.parametrize("limit", ["0", '"{{ workload.customer }}"'])
async def test_an_invalid_limit_fails_the_start(limit: str) -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited(f"limit: {limit}") if limit != "0" else limited('limit: "{{ 0 }}"'))

    assert await control_plane.status() == "failed"


async def test_the_limit_of_the_newest_start_applies_from_then_on() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited(), "x1", "x2", "x3")
    await control_plane.start(limited("limit: 3"), "x4")
    await control_plane.background_jobs.gate.sweep()

    assert await statuses(control_plane, "x1", "x2", "x3", "x4") == ["running", "running", "running", "paused"]


async def test_many_starts_on_two_servers_never_run_more_than_the_limit(tmp_path: Path) -> None:
    clock = ManualClock()
    offices = [ControlPlane(SqliteStore.open(tmp_path / "s.db"), clock, shared=True) for _ in range(2)]
    text, ids = limited("limit: 3"), [f"x{n}" for n in range(12)]

    await asyncio.gather(*(offices[n % 2].start(text, one) for n, one in enumerate(ids)))

    for _ in range(4):
        running = [row.execution_id for row in await offices[0].store.executions(status="running")]
        assert len(running) == 3
        for number, one in enumerate(running):
            await offices[number % 2].executions.cancel(one, "enough")
        await asyncio.gather(*(control_plane.background_jobs.gate.sweep() for control_plane in offices))
    assert {await offices[0].status(one) for one in ids} == {"cancelled"}
    for control_plane in offices:
        await control_plane.store.close()


async def test_an_admitted_execution_that_was_not_notified_is_notified_by_the_next_check() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited(), "x1", "x2")
    await control_plane.executions.cancel("x1", "enough")
    thing = await control_plane.store.key_values.get(GROUP_KIND, "tests/test")
    assert thing is not None
    body = b'{"limit": 1, "running": ["x2"], "released": ["x2"]}'
    await control_plane.store.key_values.put(
        GROUP_KIND, "tests/test", body, over=thing.version, at=control_plane.clock.now()
    )

    await ControlPlane(control_plane.store, control_plane.clock, shared=True).background_jobs.gate.sweep()

    assert await control_plane.status("x2") == "running"


async def test_a_start_that_never_began_frees_its_place() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.store.key_values.put(
        GROUP_KIND, "tests/test", b'{"limit": 1, "running": ["gone"]}', over=0, at=control_plane.clock.now()
    )
    await control_plane.start(limited(), "x1")
    assert await control_plane.status("x1") == "paused"

    control_plane.clock.advance(BEGINS_WITHIN_S + 1)
    await control_plane.background_jobs.gate.sweep()

    assert await control_plane.status("x1") == "running"


def test_executions_of_one_process_run_one_after_another() -> None:
    async def ran() -> list[RunResult]:
        async with driving(":memory:", clock=LoopClock(), watch=events.extend) as driver:
            ids = [await driver.start(playbook(limited())) for _ in range(3)]
            return [await driver.result(one) for one in ids]

    events: list[Event] = []
    results = run_virtually(ran())

    assert all(result.ok for result in results)
    fired: list[Any] = [event.ts for event in events if event.event_type == "timer.fired"]
    assert [round(b - a) for a, b in pairwise(fired)] == [3600, 3600]


def test_executions_of_two_processes_run_one_after_another(tmp_path: Path) -> None:
    async def ran(events: list[Event]) -> RunResult:
        async with driving(tmp_path / "s.db", clock=LoopClock(), watch=events.extend) as driver:
            return await driver.run(playbook(limited()))

    async def both() -> tuple[RunResult, RunResult]:
        return await asyncio.gather(ran(first), ran(second))

    first, second = list[Event](), list[Event]()
    assert all(result.ok for result in run_virtually(both()))
    fired = sorted(event.ts for event in [*first, *second] if event.event_type == "timer.fired")
    assert 3600 <= fired[1] - fired[0] < 3603, "the second begins when the first has ended"
