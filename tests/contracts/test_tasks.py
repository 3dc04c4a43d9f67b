"""The work list of people, the same in every backend (HUM-01 to HUM-04)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.store.contract import Store
from noetl.store.human_tasks import TaskRow, TaskState
from tests.contracts.commits import commit, event


def task(task_id: str, *, at: float = 1.0, execution_id: str = "x1", **about: Any) -> TaskRow:
    return TaskRow(
        task_id=task_id,
        execution_id=execution_id,
        step="approve",
        step_run_id="r1",
        title=f"Approve {task_id}",
        created_at=at,
        **about,
    )


async def write(store: Store, *tasks: TaskRow, seq: int = 1) -> None:
    await store.commit([msgspec.structs.replace(commit(event(seq), after=seq - 1), tasks=tasks)])


async def listed(store: Store, **wanted: Any) -> list[str]:
    return [row.task_id for row in await store.tasks.list(**wanted)]


@pytest.mark.req("HUM-01")
async def test_a_task_is_read_back_unchanged(store: Store) -> None:
    whole = task("t1", role="boss", form=[{"name": "ok", "type": "boolean"}], due_at=9.5, result={"é": [None]})
    await write(store, whole)

    assert await store.tasks.get("t1") == whole
    assert await store.tasks.get("t2") is None


@pytest.mark.req("HUM-02")
async def test_a_task_follows_the_commits_that_change_it(store: Store) -> None:
    first = task("t1", role="boss")
    await write(store, first)
    claimed = msgspec.structs.replace(first, state=TaskState.CLAIMED, claimed_by="ann", version=2)
    done = msgspec.structs.replace(claimed, state=TaskState.COMPLETED, completed_by="ann", version=3, ended_at=7.0)

    await write(store, claimed, seq=2)
    assert await listed(store, user="ann", states=[TaskState.CLAIMED]) == ["t1"]
    await write(store, done, seq=3)

    assert await store.tasks.get("t1") == done
    assert await listed(store, states=[TaskState.OPEN, TaskState.CLAIMED]) == []


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, ["t5", "t4", "t2", "t3", "t1"]),
        ({"role": "boss"}, ["t2", "t1"]),
        ({"user": "ann"}, ["t2", "t3"]),
        ({"user": "bob"}, []),
        ({"for_anybody": True}, ["t5", "t4"]),
        ({"for_anybody": True, "states": [TaskState.OPEN]}, ["t5"]),
        ({"states": [TaskState.CLAIMED, TaskState.COMPLETED]}, ["t4", "t2"]),
        ({"execution_id": "x9"}, ["t3"]),
        ({"role": "boss", "states": [TaskState.OPEN]}, ["t1"]),
        ({"limit": 2}, ["t5", "t4"]),
        ({"limit": 2, "beyond": "t2"}, ["t3", "t1"]),
        ({"beyond": "t1"}, []),
    ],
)
async def test_tasks_are_listed_newest_first_and_paged(store: Store, wanted: dict[str, Any], ids: list[str]) -> None:
    """t2 and t3 are of the same moment: a page that ends between them loses neither."""
    await write(
        store,
        task("t1", at=1.0, role="boss"),
        task("t2", at=2.0, role="boss", claimed_by="ann", state=TaskState.CLAIMED),
        task("t3", at=2.0, execution_id="x9", user="ann"),
        task("t4", at=3.0, state=TaskState.COMPLETED),
        task("t5", at=4.0),
    )

    assert await listed(store, **wanted) == ids
