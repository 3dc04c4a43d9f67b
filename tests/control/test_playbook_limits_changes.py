"""Limits of playbooks and steps, changed while executions run and wait (beyond.md §5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import InvalidError
from noetl.control.playbook_limits import KNOWN_S, PlaybookLimit
from noetl.engine.commands import ChangeLimit
from noetl.operations.api_shapes import PlaybookLimitView
from noetl.operations.limits import playbook_limits, step_limits
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.stores import opened
from tests.control.limited_playbooks import limited, statuses
from tests.control.waiting import ControlPlane
from tests.engine_script import net_of

PATH = "tests/test"
UNLIMITED = """
workflow:
  - step: start
    timer: {duration: 1h}
"""


async def set_to(control_plane: ControlPlane, limit: int) -> bool:
    changed = await control_plane.background_jobs.gate.limits.put(PlaybookLimit(path=PATH, limit=limit))
    await control_plane.background_jobs.gate.look_at(PATH)
    return changed


@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgres"])
async def test_raising_a_playbook_limit_admits_the_next_executions_at_once(backend: str, tmp_path: Path) -> None:
    async with opened(backend, tmp_path) as store:
        control_plane = ControlPlane(store, shared=True)
        await control_plane.start(limited(), "x1", "x2", "x3", "x4")

        assert await set_to(control_plane, 3) is True

        assert await statuses(control_plane, "x1", "x2", "x3", "x4") == ["running", "running", "running", "paused"]
        assert await set_to(control_plane, 3) is False


async def test_lowering_a_playbook_limit_admits_none_until_fewer_run() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited("limit: 3"), "x1", "x2", "x3", "x4")
    await set_to(control_plane, 1)
    assert await statuses(control_plane, "x1", "x2", "x3", "x4") == ["running", "running", "running", "paused"]

    for one in ("x1", "x2"):
        await control_plane.executions.cancel(one, "enough")
        await control_plane.background_jobs.gate.sweep()
        assert await control_plane.status("x4") == "paused"
    await control_plane.executions.cancel("x3", "enough")
    await control_plane.background_jobs.gate.sweep()

    assert await control_plane.status("x4") == "running"


async def test_resetting_a_limit_restores_the_limit_of_the_playbook() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited("limit: 2"), "x1")
    await set_to(control_plane, 1)
    await control_plane.start(limited("limit: 2"), "x2")
    assert await control_plane.status("x2") == "paused"

    assert await control_plane.background_jobs.gate.limits.remove(PATH) is True
    await control_plane.background_jobs.gate.look_at(PATH)

    assert await control_plane.status("x2") == "running"
    assert await control_plane.background_jobs.gate.limits.remove(PATH) is False


async def test_an_overridden_limit_applies_to_each_key_and_to_dropped_starts() -> None:
    control_plane, how = ControlPlane(shared=True), 'limit: 1, on_limit: drop, key: "{{ workload.customer }}"'
    await set_to(control_plane, 2)
    await control_plane.start(limited(how), "x1", "x2", "x3", customer="ann")
    await control_plane.start(limited(how), "x4", customer="bob")

    assert await statuses(control_plane, "x1", "x2", "x3", "x4") == ["running", "running", "failed", "running"]
    views = await playbook_limits(control_plane.store.key_values, control_plane.background_jobs.gate.limits)
    assert [(one.key, one.written, one.limit, one.running) for one in views] == [("ann", 1, 2, 2), ("bob", 1, 2, 1)]


async def test_a_playbook_without_a_limit_can_be_given_one_and_reset() -> None:
    clock = ManualClock()
    control_plane = ControlPlane(MemoryStore(), clock, shared=True)
    await control_plane.start(UNLIMITED, "x0")
    await set_to(control_plane, 1)
    await control_plane.start(UNLIMITED, "x1", "x2", "x3")
    assert await statuses(control_plane, "x0", "x1", "x2", "x3") == ["running", "running", "paused", "paused"]

    await control_plane.background_jobs.gate.limits.remove(PATH)
    await control_plane.background_jobs.gate.look_at(PATH)

    assert await statuses(control_plane, "x1", "x2", "x3") == ["running", "running", "running"]
    await control_plane.start(UNLIMITED, "x4")
    assert await control_plane.status("x4") == "running"


async def test_another_server_on_the_store_applies_the_limit_too(tmp_path: Path) -> None:
    clock = ManualClock()
    offices = [ControlPlane(SqliteStore.open(tmp_path / "s.db"), clock, shared=True) for _ in range(2)]
    await offices[1].start(UNLIMITED, "x0")
    await set_to(offices[0], 1)
    clock.advance(KNOWN_S)
    await offices[1].start(UNLIMITED, "x1", "x2")

    assert await statuses(offices[1], "x1", "x2") == ["running", "paused"]
    for control_plane in offices:
        await control_plane.store.close()


async def test_a_limit_does_not_apply_to_a_playbook_with_the_path_as_prefix() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(limited(), "x1", "x2")
    await control_plane.background_jobs.gate.limits.put(PlaybookLimit(path="tests/te", limit=5))
    await control_plane.background_jobs.gate.look_at("tests/te")
    await control_plane.background_jobs.gate.sweep()

    assert await statuses(control_plane, "x1", "x2") == ["running", "paused"]
    views = await playbook_limits(control_plane.store.key_values, control_plane.background_jobs.gate.limits, "tests/te")
    assert views == [PlaybookLimitView(path="tests/te", limit=5)]


async def test_a_limit_below_one_is_refused() -> None:
    control_plane = ControlPlane(shared=True)

    with pytest.raises(InvalidError, match="found 0, allowed a whole number from 1 on"):
        await control_plane.background_jobs.gate.limits.put(PlaybookLimit(path=PATH, limit=0))


STEPS = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: nap}, {step: nap}, {step: nap}, {step: call}, {step: call}]}
  - {step: nap, spec: {concurrency: {limit: 1}}, timer: {duration: 1h}}
  - {step: call, spec: {rate: {limit: 1, per: 1h}}}
"""


async def test_step_limits_are_listed_with_running_and_waiting_counts_and_survive_a_restart(tmp_path: Path) -> None:
    control_plane = ControlPlane(SqliteStore.open(tmp_path / "s.db"), shared=True)
    await control_plane.start(STEPS, "x1")
    await control_plane.executions.submit("x1", ChangeLimit(at=control_plane.clock.now(), step="nap", limit=2))

    nap, call = step_limits(net_of(STEPS), (await control_plane.executions.execution("x1")).execution)
    assert (nap.written, nap.limit, nap.running, nap.waiting) == (1, 2, 2, 1)
    assert call.written_rate is not None
    assert (call.written_rate.limit, call.written_rate.per, call.paced) == (1, "1h", 1)

    other = ControlPlane(SqliteStore.open(tmp_path / "s.db"), control_plane.clock, shared=True)
    live, told = await control_plane.executions.execution("x1"), await other.executions.execution("x1")
    assert told.execution == live.execution
    for one in (control_plane, other):
        await one.store.close()
