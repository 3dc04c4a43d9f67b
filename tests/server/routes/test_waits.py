"""What comes from outside over HTTP: messages, signals, events put in, human tasks, timers, schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.control.schedules import ScheduleStore
from noetl.operations.administration_shapes import Role
from tests.server.held_executions import until_status
from tests.server.talking import Talk, talking

FIXTURES = Path(__file__).parents[2] / "fixtures"


async def begun(talk: Talk, name: str, payload: dict[str, Any] | None = None) -> str:
    path = (await talk.register((FIXTURES / f"{name}.yaml").read_text()))["path"]
    return str((await talk.start(path, payload))["execution_id"])


async def steps(talk: Talk, execution_id: str) -> list[str]:
    await until_status(talk, execution_id, "completed")
    return [one["step"] for one in (await talk.get(f"/api/executions/{execution_id}/steps"))["steps"]]


@pytest.mark.req("MSG-01", "MSG-02")
async def test_a_message_is_delivered_to_the_execution_that_waits_for_it() -> None:
    async with talking() as talk:
        mine = await begun(talk, "F-R-GATEWAY", {"order_id": 7})
        waiting = (await talk.get(f"/api/executions/{mine}/tokens"))["tokens"][0]
        other = await talk.post("/api/messages", {"name": "response", "correlation": {"order_id": 8}}, 202)
        message = {"name": "response", "correlation": {"order_id": 7}, "payload": "hi", "message_id": "m1"}
        sent = await talk.post("/api/messages", message, 202)
        again = await talk.post("/api/messages", message, 202)
        clash = await talk.client.post("/api/messages", json={**message, "payload": "ho"})

        assert waiting["state"] == "waiting"
        assert 'message "response"' in waiting["waits_for"]
        assert other["delivered_to"] is None
        assert sent["delivered_to"] == mine
        assert again["known"] is True
        assert clash.status_code == 409
        assert "handle_response" in await steps(talk, mine)


@pytest.mark.req("MSG-05")
async def test_a_signal_reaches_all_listening_executions() -> None:
    async with talking() as talk:
        one, two = await begun(talk, "F-R-GATEWAY"), await begun(talk, "F-R-GATEWAY")
        told = await talk.post("/api/signals", {"name": "cancelled"})

        assert set(told["heard"]) == {one, two}
        assert "abort" in await steps(talk, one)
        await talk.post("/api/signals", {"name": "cancelled", "execution_id": "none"}, 404)


@pytest.mark.req("MSG-06")
async def test_authored_events_can_be_injected_and_system_events_cannot() -> None:
    async with talking(tools=None) as talk:
        execution_id = await begun(talk, "F-002-C")
        url = f"/api/executions/{execution_id}/events"
        for name in ("step.done", "playbook.processed", "task.completed", "token.created", "call.done", "StepStarted"):
            refused = await talk.post(url, {"name": name}, 400)
            assert name in refused["detail"]
        await talk.post(url, {"name": ""}, 422)
        await talk.post(url, {"name": "message.received", "data": {"type": "approval"}}, 202)

        assert "process_approved" in await steps(talk, execution_id)


@pytest.mark.req("TMR-04")
async def test_a_timer_can_be_cancelled_if_its_author_allows_it() -> None:
    text = """
workflow:
  - step: start
    timer: {duration: 1h, spec: {cancellable: CAN}}
    next: {arcs: [{step: early, when: "{{ event.name == 'timer.cancelled' }}"}]}
  - step: early
    tool: {kind: noop}
"""
    async with talking() as talk:
        await talk.register(text.replace("CAN", "true"))
        execution_id = (await talk.start())["execution_id"]
        (timer,) = (await talk.get(f"/api/executions/{execution_id}/timers"))["timers"]
        await talk.register(text.replace("CAN", "false"))
        fixed = (await talk.start())["execution_id"]
        (other,) = (await talk.get(f"/api/executions/{fixed}/timers"))["timers"]
        done = await talk.post(f"/api/timers/{timer['id']}/cancel")
        refused = await talk.client.post(f"/api/timers/{other['id']}/cancel")
        unknown = await talk.client.post("/api/timers/none/cancel")

        assert (timer["cancellable"], other["cancellable"]) == (True, False)
        assert done["changed"] is True
        assert "early" in await steps(talk, execution_id)
        assert refused.status_code in (403, 409)
        assert unknown.status_code == 404


@pytest.mark.req("HUM-01", "HUM-02", "HUM-03")
async def test_only_a_user_with_the_role_can_complete_a_task() -> None:
    async with talking() as talk:
        execution_id = await begun(talk, "F-R-HUMAN")
        (task,) = (await talk.get("/api/tasks", params={"role": "finance_manager"}))["tasks"]
        url = f"/api/tasks/{task['task_id']}"
        manager = await talk.as_role(Role.VIEWER, human_roles=("finance_manager",))
        clerk = await talk.as_role(Role.VIEWER, human_roles=("clerk",))
        forbidden = await clerk.post(f"{url}/claim")
        claimed = await manager.post(f"{url}/claim")
        stale = await manager.post(f"{url}/release", json={"version": task["version"]})
        wrong = await manager.post(f"{url}/complete", json={"values": {"decision": "maybe"}})
        key = {"idempotency-key": "once"}
        done = await manager.post(f"{url}/complete", json={"values": {"decision": "approve"}}, headers=key)
        again = await manager.post(f"{url}/complete", json={"values": {"decision": "approve"}}, headers=key)
        twice = await manager.post(f"{url}/complete", json={"values": {"decision": "reject"}})

        assert task["title"] == "Approve Purchase Order"
        assert forbidden.status_code == 403
        assert claimed.json()["state"] == "claimed"
        assert stale.status_code == 409
        assert wrong.status_code == 422
        assert "decision" in str(wrong.json()["errors"])
        assert done.json()["state"] == "completed"
        assert again.content == done.content
        assert twice.status_code == 409
        assert "process" in await steps(talk, execution_id)
        assert (await talk.get("/api/tasks"))["tasks"] == []
        await talk.get("/api/tasks/none", 404)


SCHEDULED = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: nightly, path: jobs/nightly}
trigger: {timer: {cron: "0 3 * * *", spec: {timezone: Europe/Berlin}}}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.mark.req("TMR-01")
async def test_schedules_are_listed_paused_and_backfilled() -> None:
    async with talking() as talk:
        registered = await talk.client.post("/api/catalog", json={"source": SCHEDULED})
        assert registered.status_code == 201, registered.text
        (listed,) = (await talk.get("/api/schedules"))["schedules"]
        url = "/api/schedules/jobs/nightly"
        coming = (await talk.get(url, params={"count": 3}))["next"]
        paused = await talk.post(f"{url}/pause")
        resumed = await talk.post(f"{url}/resume")
        span = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-04T00:00:00Z"}
        dry = await talk.post(f"{url}/backfill", {**span, "dry_run": True})
        asked = await talk.post(f"{url}/backfill", span)

        assert listed["running"] is None
        assert (listed["cron"], listed["timezone"]) == ("0 3 * * *", "Europe/Berlin")
        assert all("T03:00:00+" in one for one in coming)
        assert (paused["paused"], paused["next"], resumed["paused"]) == (True, [], False)
        assert (dry["backfill_id"], len(dry["times"])) == (None, 3)
        assert asked["backfill_id"]
        await talk.get("/api/schedules/none", 404)
        await talk.post(f"{url}/backfill", {"since": "soon"}, 422)
        turned = {"since": span["until"], "until": span["since"]}
        assert (await talk.post(f"{url}/backfill", turned, 422))["detail"] == "until: it is before since"
        long_ago = {"since": "0001-01-01T00:00:00Z", "until": "0001-01-02T00:00:00Z", "dry_run": True}
        assert (await talk.post(f"{url}/backfill", long_ago))["times"] == []


async def test_a_schedule_names_its_run_only_while_it_is_open() -> None:
    async with talking() as talk:
        await talk.client.post("/api/catalog", json={"source": SCHEDULED})
        execution_id = (await talk.post("/api/executions", {"path": "jobs/nightly"}, 201))["execution_id"]
        await until_status(talk, execution_id, "completed")
        store = ScheduleStore(talk.services.store.key_values)
        schedule, (thing,) = await store.get("jobs/nightly"), await talk.services.store.key_values.list("schedule")

        await store.replace(thing, msgspec.structs.replace(schedule, running=execution_id), at=0.0)

        assert (await store.get("jobs/nightly")).running == execution_id

        assert (await talk.get("/api/schedules/jobs/nightly"))["running"] is None
