"""Attack: run again from the step after a human task, with other inputs than those that were approved."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from noetl.events.envelope import Event
from noetl.operations.administration_shapes import Role
from noetl.operations.embedded import driving
from tests.cli.running import call
from tests.engine_script import playbook
from tests.playbook_runs import Scripted
from tests.server.talking import Talk, talking

PAYMENT = """
workload: {amount: 10}
workflow:
  - step: start
    human_task:
      title: "Pay {{ workload.amount }}?"
      assignee: {role: manager}
      form: [{field: decision, type: enum, options: [approve, reject], required: true}]
    next: {arcs: [{step: pay, when: "{{ event.result.decision == 'approve' }}"}]}
  - step: pay
    tool: [{name: work, kind: noop, args: {paid: "{{ workload.amount }}"}}]
    next: {arcs: [{step: book}]}
  - step: book
    tool: [{name: note, kind: noop, args: {booked: "{{ workload.amount }}"}}]
"""
PARENT = """
workload: {amount: 10}
workflow:
  - step: start
    tool: [{name: ask, kind: playbook, path: tests/asking, args: {amount: "{{ workload.amount }}"}}]
    next: {arcs: [{step: pay}]}
  - step: pay
    tool: [{name: work, kind: noop, args: {paid: "{{ workload.amount }}"}}]
"""
ASKING = PAYMENT.split("    next: {arcs: [{step: pay,")[0]


async def approved(talk: Talk, text: str = PAYMENT, *texts: str) -> str:
    """An execution that paid 10 after a manager had approved it."""
    for one in (*texts, text):
        registered = await talk.register(one)
    execution_id = str((await talk.start(registered["path"], {"amount": 10}))["execution_id"])
    manager = await talk.as_role(Role.VIEWER, human_roles=("manager",))
    async with asyncio.timeout(60):
        while not (tasks := (await talk.get("/api/tasks"))["tasks"]):
            await asyncio.sleep(0.02)
        answer = await manager.post(
            f"/api/tasks/{tasks[0]['task_id']}/complete", json={"values": {"decision": "approve"}}
        )
        assert answer.status_code == 200, answer.text
        while (await talk.get(f"/api/executions/{execution_id}"))["status"] == "running":
            await asyncio.sleep(0.02)
    return execution_id


async def again(client: httpx2.AsyncClient, execution_id: str, **asked: Any) -> tuple[int, dict[str, Any]]:
    answer = await client.post(f"/api/executions/{execution_id}/rerun", json={"wait": 60, **asked})
    return answer.status_code, answer.json()


@pytest.mark.req("HUM-05")
@pytest.mark.parametrize("asked", [{"payload": {"amount": 1_000_000}}, {"payload": {}}])
async def test_an_approval_is_not_reused_with_other_inputs(asked: dict[str, Any]) -> None:
    async with talking() as talk:
        first = await approved(talk)
        operator = await talk.as_role(Role.OPERATOR)
        status, told = await again(operator, first, **{"from": "pay"}, **asked)

        assert status == 409, told
        assert 'the human task "Pay 10?" of step "start" was completed with other inputs' in told["detail"]
        assert 'begin at step "start"' in told["detail"]
        assert "manager" in told["detail"]


@pytest.mark.req("HUM-05")
async def test_an_approval_is_reused_with_the_same_inputs_and_the_new_log_names_the_approver() -> None:
    async with talking() as talk:
        first = await approved(talk)
        for asked in ({}, {"payload": {"amount": 10}}):
            status, told = await again(await talk.as_role(Role.OPERATOR), first, **{"from": "pay"}, **asked)

            assert (status, told["result"]) == (201, {"booked": 10}), told
            page = await talk.get(f"/api/executions/{told['execution_id']}/events?limit=1")
            [approval] = page["events"][0]["payload"]["carried"]["approvals"]
            assert (approval["title"], approval["role"], approval["completed_by"]) == ("Pay 10?", "manager", "a viewer")


@pytest.mark.req("HUM-05")
async def test_an_approval_survives_two_reruns() -> None:
    async with talking() as talk:
        first = await approved(talk)
        operator = await talk.as_role(Role.OPERATOR)
        _, second = await again(operator, first, **{"from": "pay"})
        status, told = await again(operator, second["execution_id"], **{"from": "book"}, payload={"amount": 1_000_000})

        assert status == 409, told


@pytest.mark.req("HUM-05")
async def test_an_approval_is_not_reused_by_another_playbook_version() -> None:
    async with talking() as talk:
        first = await approved(talk)
        await talk.register(PAYMENT.replace('{paid: "{{ workload.amount }}"}', "{paid: 1000000}"))
        status, told = await again(await talk.as_role(Role.OPERATOR), first, **{"from": "pay"}, version=2)

        assert status == 409, told


@pytest.mark.req("HUM-05")
async def test_an_approval_in_a_nested_execution_is_protected_too() -> None:
    async with talking(tools={"python": Scripted(work=1)}) as talk:
        asking = playbook(ASKING).replace("tests/test", "tests/asking")
        first = await approved(talk, PARENT, asking)
        operator = await talk.as_role(Role.OPERATOR)

        status, told = await again(operator, first, **{"from": "pay"}, payload={"amount": 1_000_000})
        assert status == 409, told
        status, told = await again(operator, first, **{"from": "pay"})
        assert status == 201, told


@pytest.mark.req("HUM-05")
async def test_an_approval_of_a_server_whose_clock_is_ahead_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server has decided the nested execution, and its clock says that the step came before the approval."""
    async with talking(tools={"python": Scripted(work=1)}) as talk:
        asking = playbook(ASKING).replace("tests/test", "tests/asking")
        first = await approved(talk, PARENT, asking)
        [child] = await talk.services.store.children(first)
        stored_events = talk.services.store.events

        async def ahead(execution_id: str, **more: Any) -> list[Event]:
            events = await stored_events(execution_id, **more)
            late = 10.0 if execution_id == child.execution_id else 0.0
            return [msgspec.structs.replace(event, ts=event.ts + late) for event in events]

        monkeypatch.setattr(talk.services.store, "events", ahead)
        operator = await talk.as_role(Role.OPERATOR)

        status, told = await again(operator, first, **{"from": "pay"}, payload={"amount": 1_000_000})

        assert status == 409, told
        assert 'the human task "Pay 10?"' in told["detail"]


@pytest.mark.req("HUM-05")
async def test_an_approval_in_a_nested_execution_that_was_deleted_holds_for_no_other_inputs() -> None:
    """A nested playbook may be kept for a shorter time than the one that calls it."""
    async with talking(tools={"python": Scripted(work=1)}) as talk:
        asking = playbook(ASKING).replace("tests/test", "tests/asking")
        first = await approved(talk, PARENT, asking)
        [child] = await talk.services.store.children(first)
        assert await talk.services.store.retire([child.execution_id]) == 1
        operator = await talk.as_role(Role.OPERATOR)

        status, told = await again(operator, first, **{"from": "pay"}, payload={"amount": 1_000_000})
        assert status == 409, told
        assert f'the nested execution {child.execution_id} of step "start" was deleted' in told["detail"]
        status, second = await again(operator, first, **{"from": "pay"})
        assert status == 201, second
        asked = {"from": "pay", "payload": {"amount": 1_000_000}}
        manager = await talk.as_role(Role.OPERATOR, human_roles=("manager",))
        for client, more in ((operator, {}), (manager, {"approve": True})):
            status, told = await again(client, second["execution_id"], **asked, **more)
            assert status == 409, told
        status, told = await again(operator, first, **{"from": "start"}, payload={"amount": 20}, wait=0)
        assert status == 201, told


@pytest.mark.req("HUM-05")
async def test_an_approval_is_renewed_only_explicitly_by_a_role_holder() -> None:
    async with talking() as talk:
        first = await approved(talk)
        asked = {"from": "pay", "payload": {"amount": 20}}
        manager = await talk.as_role(Role.OPERATOR, human_roles=("manager",))

        assert (await again(await talk.as_role(Role.ADMIN), first, **asked, approve=True))[0] == 403
        assert (await again(manager, first, **asked))[0] == 409
        status, told = await again(manager, first, **asked, approve=True)
        assert (status, told["result"]) == (201, {"booked": 20})
        page = await talk.get(f"/api/executions/{told['execution_id']}/events?limit=1")
        assert page["events"][0]["payload"]["carried"]["approvals"][0]["approved_by"] == "a operator"


@pytest.mark.req("HUM-05")
async def test_a_rerun_from_the_human_task_opens_a_new_task() -> None:
    async with talking() as talk:
        first = await approved(talk)
        asked = {"from": "start", "payload": {"amount": 20}, "wait": 0}
        status, told = await again(await talk.as_role(Role.OPERATOR), first, **asked)

        assert status == 201, told
        async with asyncio.timeout(60):
            while not (tasks := (await talk.get("/api/tasks"))["tasks"]):
                await asyncio.sleep(0.02)
        assert [task["title"] for task in tasks] == ["Pay 20?"]


def _approved_here(db: str) -> str:
    async def begun() -> str:
        async with driving(db) as driver:
            execution_id = await driver.start(playbook(PAYMENT), {"amount": 10})
            while not driver._executions.may_be_moved_by_others:
                await asyncio.sleep(0.01)
            return execution_id

    execution_id = asyncio.run(begun())
    [task] = json.loads(call("task", "list", "-o", "json", "--db", db)[1])
    call("task", "complete", task["task_id"], "--role", "manager", "--set", "decision=approve", "--db", db)
    code, _, stderr = call("run", "--resume", execution_id, "-q", "--db", db)
    assert code == 0, stderr
    return execution_id


@pytest.mark.req("HUM-05", "CLI-04")
def test_the_command_on_a_store_applies_the_same_rule(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    rerun = ("rerun", _approved_here(db), "--from", "pay", "-q", "--db", db)

    code, stdout, stderr = call(*rerun, "--set", "amount=1000000")
    assert (code, stdout) == (4, "")
    assert 'the human task "Pay 10?" of step "start" was completed with other inputs' in stderr
    assert call(*rerun, "--set", "amount=20", "--approve")[0] == 4
    assert json.loads(call(*rerun)[1]) == {"booked": 10}
    assert json.loads(call(*rerun, "--set", "amount=20", "--approve", "--role", "manager")[1]) == {"booked": 20}
