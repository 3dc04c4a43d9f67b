"""Steps that wait, as lists of steps show them, and human tasks: whose they are, and forms that do not fit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.operations.administration_shapes import Role
from tests.server.talking import Talk, talking

WAITS = """
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1"}]
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: [{name: ready, kind: noop}]
    message: {name: go, correlation: {n: 1}}
    next: {arcs: [{step: end}]}
  - step: end
"""
TASK = """
workflow:
  - step: start
    human_task: {title: T, assignee: {role: boss}, form: [{field: n, type: integer, required: true}]}
"""


async def _steps(talk: Talk, execution_id: str, until: str) -> list[dict[str, Any]]:
    while True:
        steps: list[dict[str, Any]] = (await talk.get(f"/api/executions/{execution_id}/steps"))["steps"]
        if steps and steps[-1]["status"] == until:
            return steps
        await asyncio.sleep(0.01)


@pytest.mark.req("EVT-07")
async def test_a_waiting_step_does_not_end_with_its_pipeline() -> None:
    async with talking() as talk:
        await talk.register(WAITS)
        execution_id = (await talk.start())["execution_id"]
        waiting = (await _steps(talk, execution_id, "waiting"))[-1]

        assert (waiting["finished_at"], waiting["waits_for"]) == (None, ["message go"])
        assert waiting["started_at"] <= waiting["waiting_at"]

        await talk.post("/api/messages", {"name": "go", "correlation": {"n": 1}}, 202)
        ended = (await _steps(talk, execution_id, "done"))[1]
        assert ended["status"] == "done"
        assert ended["finished_at"] >= ended["waiting_at"]


@pytest.mark.req("HUM-02", "HUM-03")
async def test_my_tasks_are_those_of_my_roles_and_those_i_claimed() -> None:
    async with talking() as talk:
        await talk.register(TASK)
        for _ in range(3):
            await talk.start()
        boss = await talk.as_role(Role.OPERATOR, human_roles=("boss",))
        clerk = await talk.as_role(Role.VIEWER, human_roles=("clerk",))

        tasks = (await boss.get("/api/tasks?mine=true")).json()["tasks"]
        assert len(tasks) == 3
        assert (await clerk.get("/api/tasks?mine=true")).json()["tasks"] == []
        other = await talk.as_role(Role.ADMIN, human_roles=("boss",))
        await other.post(f"/api/tasks/{tasks[0]['task_id']}/claim")
        assert len((await boss.get("/api/tasks?mine=true")).json()["tasks"]) == 2
        page = (await other.get("/api/tasks?mine=true&limit=2")).json()
        rest = (await other.get(f"/api/tasks?mine=true&limit=2&cursor={page['next']}")).json()
        assert len(page["tasks"]) + len(rest["tasks"]) == 3
        assert rest["next"] is None
        assert (await other.get("/api/tasks?mine=true&role=boss")).status_code == 422


@pytest.mark.req("HUM-01", "HUM-02")
async def test_a_task_without_an_assignee_is_listed_for_everybody_until_it_is_claimed() -> None:
    async with talking() as talk:
        await talk.register(TASK.replace("assignee: {role: boss}, ", ""))
        await talk.start()
        ann = await talk.as_role(Role.OPERATOR)
        bob = await talk.as_role(Role.ADMIN, human_roles=("boss",))
        [task] = (await ann.get("/api/tasks?mine=true")).json()["tasks"]
        assert (await bob.get("/api/tasks?mine=true")).json()["tasks"] == [task]

        await bob.post(f"/api/tasks/{task['task_id']}/claim")
        assert (await ann.get("/api/tasks?mine=true")).json()["tasks"] == []
        assert len((await bob.get("/api/tasks?mine=true")).json()["tasks"]) == 1


@pytest.mark.req("HUM-02")
async def test_an_administrator_releases_the_task_of_another_user_which_the_audit_log_says() -> None:
    async with talking() as talk:
        await talk.register(TASK)
        await talk.start()
        boss = await talk.as_role(Role.VIEWER, human_roles=("boss",))
        author = await talk.as_role(Role.AUTHOR, human_roles=("boss",))
        admin = await talk.as_role(Role.ADMIN)
        [task] = (await boss.get("/api/tasks?mine=true")).json()["tasks"]
        url = f"/api/tasks/{task['task_id']}"
        claimed = (await boss.post(f"{url}/claim")).json()

        refused = await author.post(f"{url}/release", json={"version": claimed["version"]})
        released = await admin.post(f"{url}/release", json={"version": claimed["version"]})
        await boss.post(f"{url}/claim")
        await boss.post(f"{url}/release")
        rows = (await admin.get("/api/audit")).json()["rows"]

    assert refused.status_code == 403
    assert released.json()["state"] == "open"
    assert [entry["actor"] for entry in released.json()["history"]] == [claimed["claimed_by"], "a admin"]
    own, by_admin = [row["object"] for row in rows if "/release" in row["object"] and row["outcome"] == "200"]
    assert by_admin == f"{url}/release?title=T&claimed_by={claimed['claimed_by']}"
    assert own == f"{url}/release?title=T"


@pytest.mark.req("HUM-03")
async def test_an_invalid_form_is_refused_field_by_field() -> None:
    async with talking() as talk:
        await talk.register(TASK)
        await talk.start()
        boss = await talk.as_role(Role.OPERATOR, human_roles=("boss",))
        [task] = (await boss.get("/api/tasks?mine=true")).json()["tasks"]
        told = await boss.post(f"/api/tasks/{task['task_id']}/complete", json={"values": {"n": "many"}})

        assert told.status_code == 422
        [error] = told.json()["errors"]
        assert error["field"] == "n"
        assert "many" in error["found"]
