"""The inbox: who may do what with a human task, and what everybody sees of it (HUM-01 to HUM-04)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypedDict

import pytest

from noetl.base.errors import ForbiddenError, InvalidError, NotFoundError, SettledError
from noetl.store.human_tasks import TaskRow, TaskState
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from tests.control.waiting import TASK, ControlPlane


class Person(TypedDict):
    actor: str
    roles: list[str]


BOSS: Person = {"actor": "bea", "roles": ["boss", "staff"]}
FIELDS = {"decision": "yes_please"}


@pytest.fixture(params=["memory", "sqlite"])
async def control_plane(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "s.db")
    control_plane = ControlPlane(store, shared=True)
    await control_plane.start(TASK)
    yield control_plane
    await store.close()


async def the_task(control_plane: ControlPlane) -> TaskRow:
    [task] = await control_plane.inbox.list()
    return task


@pytest.mark.req("HUM-01", "HUM-02")
async def test_a_task_is_listed_by_role_state_and_user(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)

    assert (task.title, task.role, task.state, task.step) == ("Approve", "boss", TaskState.OPEN, "start")
    assert await control_plane.inbox.list(role="boss") == [task]
    assert await control_plane.inbox.list(role="staff") == []
    assert await control_plane.inbox.list(user="bea") == []
    await control_plane.inbox.claim(task.task_id, **BOSS)
    assert [one.claimed_by for one in await control_plane.inbox.list(user="bea")] == ["bea"]
    assert await control_plane.inbox.list(states=[TaskState.COMPLETED]) == []


@pytest.mark.req("HUM-01")
async def test_completing_a_task_continues_its_execution(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)

    done = await control_plane.inbox.complete(task.task_id, {"decision": "no_thanks", "amount": 3}, **BOSS)

    assert (done.state, done.completed_by) == (TaskState.COMPLETED, "bea")
    assert done.result == {"decision": "no_thanks", "amount": 3}
    assert await control_plane.status() == "completed"
    assert await control_plane.ran() == ["start", "done"]


@pytest.mark.req("HUM-02")
async def test_only_a_user_with_the_role_can_claim_a_task(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)

    with pytest.raises(ForbiddenError, match="is for human role boss"):
        await control_plane.inbox.claim(task.task_id, actor="ann", roles=["staff"])

    claimed = await control_plane.inbox.claim(task.task_id, **BOSS)
    assert (claimed.state, claimed.version) == (TaskState.CLAIMED, 2)
    assert (await control_plane.inbox.claim(task.task_id, **BOSS)).version == 2, "claimed already, and by the same one"
    with pytest.raises(SettledError, match="claimed by bea"):
        await control_plane.inbox.claim(task.task_id, actor="bob", roles=["boss"])
    with pytest.raises(ForbiddenError, match="bea"):
        await control_plane.inbox.release(task.task_id, actor="bob", roles=["boss"])
    assert (await control_plane.inbox.release(task.task_id, **BOSS)).state is TaskState.OPEN
    await control_plane.inbox.claim(task.task_id, actor="bob", roles=["boss"])


@pytest.mark.req("HUM-02")
async def test_a_task_is_completed_once(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)
    await control_plane.inbox.complete(task.task_id, FIELDS, **BOSS)

    with pytest.raises(SettledError, match="was completed by bea"):
        await control_plane.inbox.complete(task.task_id, FIELDS, **BOSS)

    assert (await control_plane.types()).count("task.completed") == 1


@pytest.mark.req("HUM-02")
async def test_an_action_on_an_outdated_task_version_is_refused(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)
    await control_plane.inbox.claim(task.task_id, **BOSS)

    with pytest.raises(SettledError, match="you saw version 1, this is version 2"):
        await control_plane.inbox.complete(task.task_id, FIELDS, version=1, **BOSS)

    await control_plane.inbox.complete(task.task_id, FIELDS, version=2, **BOSS)


@pytest.mark.req("HUM-03")
async def test_every_invalid_field_is_named_and_the_task_stays_open(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)

    with pytest.raises(InvalidError) as refused:
        await control_plane.inbox.complete(task.task_id, {"decision": "maybe", "amount": "lots"}, **BOSS)

    assert [problem["field"] for problem in refused.value.problems] == ["decision", "amount"]
    assert "yes_please, no_thanks" in str(refused.value)
    assert (await the_task(control_plane)).state is TaskState.OPEN


@pytest.mark.req("HUM-02")
async def test_an_unknown_task_is_not_found(control_plane: ControlPlane) -> None:
    with pytest.raises(NotFoundError, match="there is no human task t9"):
        await control_plane.inbox.get("t9")
    with pytest.raises(NotFoundError):
        await control_plane.inbox.claim("t9", **BOSS)


@pytest.mark.req("HUM-01", "SRV-11")
async def test_a_cancelled_execution_withdraws_its_tasks(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)
    await control_plane.executions.cancel("x1", "enough")

    assert await control_plane.inbox.list() == []
    assert (await control_plane.inbox.get(task.task_id)).state is TaskState.WITHDRAWN
    with pytest.raises(SettledError, match="was withdrawn"):
        await control_plane.inbox.complete(task.task_id, FIELDS, **BOSS)


@pytest.mark.req("HUM-04")
async def test_an_overdue_task_moves_to_its_escalation_role() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(
        TASK.replace(
            "      form:\n",
            "      due_date: P1D\n      escalation: {after: 48h, to_role: director}\n      form:\n",
        )
    )
    task = await the_task(control_plane)
    assert task.due_at == pytest.approx(control_plane.clock.now() + 86_400, abs=1)

    control_plane.clock.advance(86_401)
    await control_plane.timer_queue.wake_due()
    overdue = await the_task(control_plane)
    assert (overdue.overdue, overdue.role) == (True, "boss")

    control_plane.clock.advance(86_401)
    await control_plane.timer_queue.wake_due()
    assert await control_plane.inbox.list(role="boss") == []
    [escalated] = await control_plane.inbox.list(role="director")
    assert escalated.escalated
    assert (await control_plane.types()).count("human.overdue") == 1


@pytest.mark.req("HUM-01", "EVT-01")
async def test_tasks_are_rebuilt_from_the_log(control_plane: ControlPlane) -> None:
    task = await the_task(control_plane)
    claimed = await control_plane.inbox.claim(task.task_id, **BOSS)

    await control_plane.store.rebuild()

    assert await control_plane.inbox.get(task.task_id) == claimed
