"""Starting, listing and steering executions over HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from types import FrameType
from typing import Any

import pytest

from noetl.events.envelope import Event
from noetl.operations.administration_shapes import Role
from noetl.store.contract import EventFilter
from noetl.store.memory import MemoryStore
from tests.engine_script import playbook
from tests.server.held_executions import HELD, until_status
from tests.server.talking import talking


@pytest.mark.req("SRV-02", "SRV-09")
async def test_path_and_playbook_id_start_the_same_version() -> None:
    async with talking() as talk:
        registered = await talk.register()
        by_path = await talk.start(wait=60)
        by_id = await talk.post("/api/executions", {"playbook_id": registered["catalog_id"], "wait": 60}, 201)

        assert by_path["version"] == by_id["version"] == 1
        assert by_path["status"] == by_id["status"] == "completed"
        assert by_path["result"] == 1


async def _calls_of_the_router(ask: Awaitable[object]) -> int:
    number = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal number
        number += event == "call" and "fastapi/routing" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        await ask
    finally:
        sys.setprofile(None)
    return number


async def test_a_start_bypasses_the_router_of_the_framework() -> None:
    """Which takes a tenth of what a small execution costs the server."""
    async with talking() as talk:
        await talk.register()

        assert await _calls_of_the_router(talk.start()) == 0
        assert await _calls_of_the_router(talk.get("/api/executions")) > 0


class _NotedReads(MemoryStore):
    """A store that notes what it is asked for by type: what is rare, or not there, costs it all of a history."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[EventFilter] = []

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        if only is not None and only.types:
            self.asked.append(only)
        return await super().events(execution_id, after=after, only=only)


async def test_reading_a_running_execution_does_not_scan_its_history() -> None:
    """A loop of 5,000 items that somebody looks at every moment held up everybody else on the server (P8)."""
    store = _NotedReads()
    async with talking(store=store, workers=0) as talk:
        await talk.register(HELD)
        begun = await talk.start()
        store.asked.clear()

        told = await talk.get(f"/api/executions/{begun['execution_id']}")

    assert (told["status"], told["error"]) == ("running", None)
    assert store.asked == []


async def test_the_result_of_a_step_is_found_by_its_newest_event() -> None:
    store = _NotedReads()
    async with talking(store=store) as talk:
        execution_id = await talk.ran()
        store.asked.clear()

        told = await talk.get(f"/api/executions/{execution_id}/result")

    assert told["result"] == 1
    assert {only.limit for only in store.asked} == {1}


@pytest.mark.req("DIA-07")
@pytest.mark.parametrize(
    ("dialect", "next_"), [("v10", "{arcs: [{step: a}]}"), ("v2-eval", "[{step: a, when: true}]"), ("v2-case", "a")]
)
async def test_the_catalogue_and_an_execution_show_the_dialect(dialect: str, next_: str) -> None:
    text = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: test, path: tests/test}}
workflow: [{{step: start, next: {next_}}}, {{step: a, tool: {{kind: noop}}}}]
"""
    async with talking() as talk:
        execution_id = await talk.ran(text)
        registered = [await talk.get(f"/api/catalog/tests/test{which}") for which in ("", "/versions/1")]
        told = await talk.get(f"/api/executions/{execution_id}")
        events = await talk.get(f"/api/executions/{execution_id}/events?types=playbook.request_evaluated")

    assert [one["dialect"] for one in registered] == [dialect, dialect]
    assert told["dialect"] == dialect
    assert [event["payload"]["dialect"] for event in events["events"]] == [dialect]


@pytest.mark.req("SRV-02")
@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"path": "nowhere"}, 404),
        ({"playbook_id": "nowhere@1"}, 404),
        ({"playbook_id": "tests/test@7"}, 404),
        ({"playbook_id": "tests/test"}, 404),
        ({"path": "tests/test", "version": 7}, 404),
        ({}, 422),
        ({"path": "tests/test", "playbook_id": "tests/test@1"}, 422),
        ({"path": "tests/test", "colour": "blue"}, 422),
        ({"path": 1}, 422),
    ],
)
async def test_an_unknown_playbook_starts_nothing(asked: dict[str, Any], status: int) -> None:
    async with talking() as talk:
        await talk.register()
        await talk.post("/api/executions", asked, status)

        assert (await talk.get("/api/executions"))["executions"] == []


@pytest.mark.req("SRV-10")
async def test_a_run_keeps_the_version_it_started_with() -> None:
    async with talking() as talk:
        await talk.register(HELD)
        first = await talk.start()
        await talk.register(HELD.replace("result = 1", "result = 2"))
        second = await talk.start(wait=60)

        assert (await talk.get(f"/api/executions/{first['execution_id']}"))["version"] == 1
        assert second["version"] == 2
        assert second["catalog_id"] == "tests/test@2"


async def test_a_repeated_request_with_its_key_gets_the_same_answer_and_starts_once() -> None:
    """reliability.md §3.4."""
    async with talking() as talk:
        await talk.register()
        asked, key = {"path": "tests/test", "wait": 60}, {"idempotency-key": "k1"}
        first = await talk.client.post("/api/executions", json=asked, headers=key)
        again = await talk.client.post("/api/executions", json={"wait": 60, "path": "tests/test"}, headers=key)
        other = await talk.client.post("/api/executions", json={**asked, "payload": {"a": 1}}, headers=key)

        assert first.status_code == again.status_code == 201
        assert first.content == again.content
        assert again.headers["idempotent-replayed"] == "true"
        assert other.status_code == 422
        assert "another body" in other.json()["detail"]
        assert len((await talk.get("/api/executions"))["executions"]) == 1


async def test_a_start_without_a_required_input_is_refused_and_its_key_can_be_reused() -> None:
    text = "executor: {spec: {required_inputs: [region]}}\nworkflow: [{step: start, tool: {kind: noop}}]"
    async with talking() as talk:
        await talk.register(text)
        asked, key = {"path": "tests/test", "wait": 60}, {"idempotency-key": "k1"}
        plain = await talk.post("/api/executions", asked, 422)
        keyed = await talk.client.post("/api/executions", json=asked, headers=key)
        draft = await talk.post("/api/executions/draft", {"source": playbook(text)}, 422)
        brought = await talk.client.post("/api/executions", json={**asked, "payload": {"region": "eu"}}, headers=key)

        for told in (plain, keyed.json(), draft):
            assert told["detail"] == '"tests/test" needs the input "region", which this start does not bring'
        assert brought.json()["status"] == "completed"
        assert len((await talk.get("/api/executions"))["executions"]) == 1


async def test_concurrent_requests_with_one_key_start_once() -> None:
    async with talking() as talk:
        await talk.register()
        asked, key = {"path": "tests/test"}, {"idempotency-key": "k1"}
        answers = await asyncio.gather(
            *(talk.client.post("/api/executions", json=asked, headers=key) for _ in range(10))
        )

        assert {one.status_code for one in answers} == {201}
        assert len({one.json()["execution_id"] for one in answers}) == 1
        assert len((await talk.get("/api/executions"))["executions"]) == 1


async def test_idempotency_keys_of_different_users_are_separate() -> None:
    async with talking() as talk:
        await talk.register()
        operator = await talk.as_role(Role.OPERATOR)
        key = {"idempotency-key": "k1"}
        one = await talk.client.post("/api/executions", json={"path": "tests/test"}, headers=key)
        two = await operator.post("/api/executions", json={"path": "tests/test"}, headers=key)

        assert one.json()["execution_id"] != two.json()["execution_id"]


async def test_a_key_whose_first_request_was_refused_can_be_reused() -> None:
    async with talking() as talk:
        key = {"idempotency-key": "k1"}
        refused = await talk.client.post("/api/executions", json={"path": "tests/test"}, headers=key)
        await talk.register()
        started = await talk.client.post("/api/executions", json={"path": "tests/test"}, headers=key)

        assert (refused.status_code, started.status_code) == (404, 201)


async def test_lists_are_filtered_and_paged() -> None:
    async with talking() as talk:
        await talk.register()
        await talk.register(
            "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: other, path: o/other}\n"
            "workflow: [{step: start, tool: {kind: noop}}]\n"
        )
        ids = [(await talk.start(wait=60))["execution_id"] for _ in range(5)]
        other = (await talk.start("o/other", wait=60))["execution_id"]

        first = await talk.get("/api/executions", params={"limit": 2, "path": "tests/*"})
        second = await talk.get("/api/executions", params={"limit": 3, "path": "tests/*", "cursor": first["next"]})
        found = [one["execution_id"] for one in (*first["executions"], *second["executions"])]
        by_text = await talk.get("/api/executions", params={"text": "OTHER"})
        late = await talk.get("/api/executions", params={"since": "2100-01-01"})
        early = await talk.get("/api/executions", params={"until": "2100-01-01T00:00:00Z", "status": "completed"})

        assert found == ids[::-1]
        assert second["next"] is None
        assert [one["execution_id"] for one in by_text["executions"]] == [other]
        assert late["executions"] == []
        assert len(early["executions"]) == 6
        for wrong in ({"since": "soon"}, {"cursor": "none"}, {"status": "odd"}, {"limit": 0}):
            await talk.get("/api/executions", 422, params=wrong)


@pytest.mark.req("SRV-07")
async def test_pause_holds_the_next_step_until_resume() -> None:
    gate = asyncio.Event()

    class Waiting:
        async def run(self, inputs: Any, context: Any) -> Any:
            from noetl.tools.contract import ToolResult

            await gate.wait()
            return ToolResult(result=1)

        async def close(self) -> None: ...

        def helpers(self) -> dict[str, dict[str, Any]]:
            return {}

    async with talking(tools={"python": Waiting()}) as talk:
        await talk.register(HELD)
        execution_id = (await talk.start())["execution_id"]
        paused = await talk.post(f"/api/executions/{execution_id}/pause", {"reason": "lunch"})
        again = await talk.post(f"/api/executions/{execution_id}/pause")
        gate.set()
        names = [one["name"] for one in (await talk.get(f"/api/executions/{execution_id}/events"))["events"]]
        why = await talk.get(f"/api/executions/{execution_id}/explain")
        held = await talk.get(f"/api/executions/{execution_id}")
        resumed = await talk.post(f"/api/executions/{execution_id}/resume")
        after = await talk.get(f"/api/executions/{execution_id}")
        [pause] = (await talk.get(f"/api/executions/{execution_id}/steps"))["pauses"]
        await until_status(talk, execution_id, "completed")
        over = await talk.client.post(f"/api/executions/{execution_id}/cancel")

        assert (paused["changed"], again["changed"], resumed["changed"]) == (True, False, True)
        assert paused["execution"]["status"] == "paused"
        assert "playbook.paused" in names
        assert why["stuck"]
        assert "by admin (lunch): nothing new starts before a resume" in why["sentences"][0]
        assert (held["pause"]["by"], held["pause"]["reason"], after["pause"]) == ("admin", "lunch", None)
        assert (pause["by"], pause["resumed_by"]) == ("admin", "admin")
        assert pause["since"] < pause["until"]
        assert over.status_code == 409


@pytest.mark.req("SRV-11")
async def test_cancel_ends_an_execution_without_a_worker() -> None:
    async with talking(workers=0) as talk:
        await talk.register(HELD)
        execution_id = (await talk.start())["execution_id"]
        why = await talk.get(f"/api/executions/{execution_id}/explain")
        await talk.post(f"/api/executions/{execution_id}/cancel", {"reason": "not wanted"})
        told = await talk.get(f"/api/executions/{execution_id}")

        assert any('no worker serves the pool "default"' in one for one in why["sentences"])
        assert told["status"] == "cancelled"
        assert told["error"]["message"] == "not wanted"


async def test_several_executions_are_controlled_together_and_a_dry_run_does_nothing() -> None:
    async with talking(workers=0) as talk:
        await talk.register(HELD)
        ids = {(await talk.start())["execution_id"] for _ in range(4)}
        asked = {"action": "cancel", "filter": {"path": "tests/*"}}
        dry = await talk.post("/api/executions/bulk", {**asked, "dry_run": True})
        done = await talk.post("/api/executions/bulk", asked)
        again = await talk.post("/api/executions/bulk", {"action": "pause", "execution_ids": sorted(ids)})

        assert (dry["matched"], dry["changed"]) == (4, 4)
        assert {one["execution_id"] for one in done["executions"]} == ids
        assert done["changed"] == 4
        assert {one["outcome"] for one in again["executions"]} == {"over"}
        for wrong in ({"action": "stop", "filter": {}}, {"action": "cancel"}, {"action": "cancel", "filter": {"a": 1}}):
            await talk.post("/api/executions/bulk", wrong, 422)


@pytest.mark.req("SRV-11")
async def test_an_empty_filter_controls_nothing() -> None:
    """A client that forgot to fill it in would cancel everybody's work."""
    async with talking(workers=0) as talk:
        await talk.register(HELD)
        execution_id = (await talk.start())["execution_id"]
        for action in ("pause", "cancel"):
            await talk.post("/api/executions/bulk", {"action": action, "filter": {}}, 422)
        dry = await talk.post("/api/executions/bulk", {"action": "cancel", "filter": {}, "dry_run": True})
        assert (await talk.get(f"/api/executions/{execution_id}"))["status"] == "running"
        done = await talk.post("/api/executions/bulk", {"action": "cancel", "filter": {"path": "*"}})

        assert (dry["matched"], done["changed"]) == (1, 1)


async def test_rerun_uses_version_and_payload_of_the_first_run_by_default() -> None:
    async with talking() as talk:
        first = await talk.ran(payload={"who": "me"})
        again = await talk.post(f"/api/executions/{first}/rerun", {"wait": 60}, 201)
        other = await talk.post(f"/api/executions/{first}/rerun", {"payload": {"who": "you"}, "wait": 60}, 201)

        assert (await talk.get(f"/api/executions/{again['execution_id']}/ctx")) == {"greeted": "me"}
        assert (await talk.get(f"/api/executions/{other['execution_id']}/ctx")) == {"greeted": "you"}


async def test_too_many_concurrent_starts_get_a_retry_after_header() -> None:
    async with talking(max_starts_at_once=0) as talk:
        await talk.register()
        answer = await talk.client.post("/api/executions", json={"path": "tests/test"})

        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.req("SAGA-01")
async def test_cancel_with_compensation_runs_the_compensations() -> None:
    text = """
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1"}]
    compensate: {tool: {kind: python, code: "result = 0"}}
    next: {arcs: [{step: hold}]}
  - step: hold
    timer: {duration: 1h}
"""
    async with talking() as talk:
        registered = await talk.client.post("/api/catalog", json={"source": playbook(text)})
        assert registered.status_code == 201, registered.text
        execution_id = (await talk.start())["execution_id"]
        async with asyncio.timeout(60):
            while not (await talk.get(f"/api/executions/{execution_id}/timers"))["timers"]:
                await asyncio.sleep(0.02)
        await talk.post(f"/api/executions/{execution_id}/cancel", {"compensate": True})
        await until_status(talk, execution_id, "cancelled")
        names = [one["name"] for one in (await talk.get(f"/api/executions/{execution_id}/events"))["events"]]

        assert "compensation.done" in names


CHAIN = """
workload: {n: 1}
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1"}]
    set_ctx: {seen: "{{ workload.n }}"}
    next: {arcs: [{step: middle, args: {given: "{{ start }}"}}]}
  - step: middle
    tool: [{name: echo, kind: noop, args: {got: "{{ args.given }}", ctx: "{{ ctx.seen }}", first: "{{ start }}"}}]
    next: {arcs: [{step: end}]}
  - step: end
    tool: [{name: last, kind: noop, args: {n: "{{ workload.n }}", middle: "{{ middle.got }}"}}]
  - step: never
"""


@pytest.mark.req("CLI-04", "SRV-10")
async def test_rerun_from_a_step_starts_there_with_the_data_of_the_first_run() -> None:
    async with talking() as talk:
        first = await talk.ran(CHAIN, payload={"n": 7})
        again = await talk.post(f"/api/executions/{first}/rerun", {"from": "middle", "wait": 60}, 201)
        new = again["execution_id"]

        assert again["status"] == "completed"
        assert again["result"] == (await talk.get(f"/api/executions/{first}/result"))["result"]
        assert [one["step"] for one in (await talk.get(f"/api/executions/{new}/steps"))["steps"]] == ["middle", "end"]
        assert await talk.get(f"/api/executions/{new}/ctx") == {"seen": 7}
        state = await talk.get(f"/api/executions/{new}/state")
        assert (state["ctx"], state["workload"]) == ({"seen": 7}, {"n": 7})
        assert state["results"]["middle"]["result"] == {"got": 1, "ctx": 7, "first": 1}
        told = await talk.get(f"/api/executions/{new}")
        assert (told["rerun_of"], told["from_step"]) == (first, "middle")


@pytest.mark.parametrize("step", ["nowhere", "never"])
async def test_rerun_from_a_step_that_never_ran_is_a_refusal(step: str) -> None:
    async with talking() as talk:
        first = await talk.ran(CHAIN)
        told = await talk.post(f"/api/executions/{first}/rerun", {"from": step}, 422)

        assert step in told["detail"]
        assert len((await talk.get("/api/executions"))["executions"]) == 1


async def test_running_a_text_once_leaves_the_catalogue_unchanged() -> None:
    text = """
    apiVersion: noetl.io/v10
    kind: Playbook
    metadata: {name: drafted, path: tests/drafted}
    workload: {n: 1}
    trigger: {timer: {cron: "0 3 * * *"}}
    workflow:
      - step: start
        tool: {kind: noop}
    """
    async with talking() as talk:
        asked = {"source": text, "payload": {"n": 2}}
        begun = await talk.client.post("/api/executions/draft", json=asked)
        execution_id = begun.json()["execution_id"]
        await until_status(talk, execution_id, "completed")
        detail = await talk.get(f"/api/executions/{execution_id}")
        wrong = await talk.client.post("/api/executions/draft", json={"source": text.replace("noop", "nope")})

        assert (detail["path"], detail["version"], detail["payload"]) == ("tests/drafted", None, {"n": 2})
        assert (await talk.get("/api/catalog"))["playbooks"] == []
        assert (await talk.get("/api/schedules"))["schedules"] == []
        assert wrong.status_code == 422
        assert wrong.json()["diagnostics"]
