"""The inbox: who may do what with a human task, and what everybody sees of it (HUM-01 to HUM-04)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.errors import ForbiddenError, InvalidError, NotFoundError, SettledError
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from noetl.store.tasks import TaskRow, TaskState
from tests.orchestrator.waiting import TASK, Office

BOSS = {"actor": "bea", "roles": ["boss", "staff"]}
FIELDS = {"decision": "yes_please"}


@pytest.fixture(params=["memory", "sqlite"])
async def office(request: pytest.FixtureRequest, tmp_path: Path) -> Office:
    store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "s.db")
    office = Office(store, shared=True)
    await office.start(TASK)
    return office


async def the_task(office: Office) -> TaskRow:
    [task] = await office.inbox.list()
    return task


@pytest.mark.req("HUM-01", "HUM-02")
async def test_a_task_is_listed_by_role_state_and_user(office: Office) -> None:
    task = await the_task(office)

    assert (task.title, task.role, task.state, task.step) == ("Approve", "boss", TaskState.OPEN, "start")
    assert await office.inbox.list(role="boss") == [task]
    assert await office.inbox.list(role="staff") == []
    assert await office.inbox.list(user="bea") == []
    await office.inbox.claim(task.task_id, **BOSS)
    assert [one.claimed_by for one in await office.inbox.list(user="bea")] == ["bea"]
    assert await office.inbox.list(states=[TaskState.COMPLETED]) == []


@pytest.mark.req("HUM-01")
async def test_completing_a_task_moves_its_execution_on(office: Office) -> None:
    task = await the_task(office)

    done = await office.inbox.complete(task.task_id, {"decision": "no_thanks", "amount": 3}, **BOSS)

    assert (done.state, done.completed_by) == (TaskState.COMPLETED, "bea")
    assert done.result == {"decision": "no_thanks", "amount": 3}
    assert await office.status() == "completed"
    assert await office.ran() == ["start", "done"]


@pytest.mark.req("HUM-02")
async def test_only_a_holder_of_the_role_may_claim(office: Office) -> None:
    task = await the_task(office)

    with pytest.raises(ForbiddenError, match="is for role boss"):
        await office.inbox.claim(task.task_id, actor="ann", roles=["staff"])

    claimed = await office.inbox.claim(task.task_id, **BOSS)
    assert (claimed.state, claimed.version) == (TaskState.CLAIMED, 2)
    assert (await office.inbox.claim(task.task_id, **BOSS)).version == 2, "claimed already, and by the same one"
    with pytest.raises(SettledError, match="claimed by bea"):
        await office.inbox.claim(task.task_id, actor="bob", roles=["boss"])
    with pytest.raises(ForbiddenError, match="bea"):
        await office.inbox.release(task.task_id, actor="bob", roles=["boss"])
    assert (await office.inbox.release(task.task_id, **BOSS)).state is TaskState.OPEN
    await office.inbox.claim(task.task_id, actor="bob", roles=["boss"])


@pytest.mark.req("HUM-02")
async def test_a_task_is_completed_once(office: Office) -> None:
    task = await the_task(office)
    await office.inbox.complete(task.task_id, FIELDS, **BOSS)

    with pytest.raises(SettledError, match="was completed by bea"):
        await office.inbox.complete(task.task_id, FIELDS, **BOSS)

    assert (await office.types()).count("task.completed") == 1


@pytest.mark.req("HUM-02")
async def test_who_acts_on_what_he_saw_acts_on_nothing_else(office: Office) -> None:
    task = await the_task(office)
    await office.inbox.claim(task.task_id, **BOSS)

    with pytest.raises(SettledError, match="you saw version 1, this is version 2"):
        await office.inbox.complete(task.task_id, FIELDS, version=1, **BOSS)

    await office.inbox.complete(task.task_id, FIELDS, version=2, **BOSS)


@pytest.mark.req("HUM-03")
async def test_every_field_that_does_not_fit_is_named_and_the_task_stays_open(office: Office) -> None:
    task = await the_task(office)

    with pytest.raises(InvalidError) as refused:
        await office.inbox.complete(task.task_id, {"decision": "maybe", "amount": "lots"}, **BOSS)

    assert [problem["field"] for problem in refused.value.problems] == ["decision", "amount"]
    assert "yes_please, no_thanks" in str(refused.value)
    assert (await the_task(office)).state is TaskState.OPEN


@pytest.mark.req("HUM-02")
async def test_a_task_that_is_not_there_is_not_found(office: Office) -> None:
    with pytest.raises(NotFoundError, match="there is no human task t9"):
        await office.inbox.get("t9")
    with pytest.raises(NotFoundError):
        await office.inbox.claim("t9", **BOSS)


@pytest.mark.req("HUM-01", "SRV-11")
async def test_a_cancelled_execution_withdraws_its_tasks(office: Office) -> None:
    task = await the_task(office)
    await office.conductor.cancel("x1", "enough")

    assert await office.inbox.list() == []
    assert (await office.inbox.get(task.task_id)).state is TaskState.WITHDRAWN
    with pytest.raises(SettledError, match="was withdrawn"):
        await office.inbox.complete(task.task_id, FIELDS, **BOSS)


@pytest.mark.req("HUM-04")
async def test_an_overdue_task_moves_to_the_one_it_escalates_to() -> None:
    office = Office(shared=True)
    await office.start(
        TASK.replace(
            "      form:\n",
            "      due_date: P1D\n      escalation: {after: 48h, to_role: director}\n      form:\n",
        )
    )
    task = await the_task(office)
    assert task.due_at == pytest.approx(office.clock.now() + 86_400, abs=1)

    office.clock.advance(86_401)
    await office.alarms.wake_due()
    overdue = await the_task(office)
    assert (overdue.overdue, overdue.role) == (True, "boss")

    office.clock.advance(86_401)
    await office.alarms.wake_due()
    assert await office.inbox.list(role="boss") == []
    [escalated] = await office.inbox.list(role="director")
    assert escalated.escalated
    assert (await office.types()).count("human.overdue") == 1


@pytest.mark.req("HUM-01", "EVT-01")
async def test_tasks_are_told_anew_from_the_log(office: Office) -> None:
    task = await the_task(office)
    claimed = await office.inbox.claim(task.task_id, **BOSS)

    await office.store.rebuild()

    assert await office.inbox.get(task.task_id) == claimed
