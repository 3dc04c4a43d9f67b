"""What is told of one execution: events, tokens, state, result, variables, logs, times."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from noetl.server.routes import inspection
from noetl.tools.contract import ToolResult
from tests.playbook_runs import Scripted, broken
from tests.server.held_executions import until_status
from tests.server.talking import talking

TWO = """
workload: {api_url: "http://x", n: 2}
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1"}]
    set_ctx: {seen: "{{ start }}", n: "{{ workload.n }}"}
    next: {arcs: [{step: end, args: {k: 7}}]}
  - step: end
    tool: [{name: last, kind: python, code: "result = 2"}]
"""
JOIN = """
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - step: a
    tool: {kind: noop}
    next: {arcs: [{step: both}]}
  - step: b
    tool: [{name: work, kind: python, code: "result = 1"}]
    next: {arcs: [{step: both}]}
  - step: both
    spec: {join: all}
    tool: {kind: noop}
"""
ANSWERS = Scripted(work={"rows": [1, 2]}, last="bye")


@pytest.mark.req("SRV-09")
async def test_vars_and_ctx_return_the_same_mapping() -> None:
    async with talking(tools={"python": ANSWERS}) as talk:
        execution_id = await talk.ran(TWO)
        ctx = await talk.get(f"/api/executions/{execution_id}/ctx")

        assert ctx == await talk.get(f"/api/executions/{execution_id}/vars")
        assert ctx == {"seen": {"rows": [1, 2]}, "n": 2}


@pytest.mark.req("SRV-09")
async def test_results_of_an_execution_and_of_a_step_can_be_read() -> None:
    async with talking(tools={"python": ANSWERS}) as talk:
        execution_id = await talk.ran(TWO)
        url = f"/api/executions/{execution_id}/result"
        whole = await talk.client.get(url)
        step = await talk.get(url, params={"step": "start"})
        part = await talk.client.get(url, headers={"range": "bytes=0-9"})

        assert whole.json() == {
            "execution_id": execution_id, "status": "completed", "result": "bye", "error": None, "step": None,
        }  # fmt: skip
        assert step["result"] == {"rows": [1, 2]}
        assert part.status_code == 206
        assert part.content == whole.content[:10]
        await talk.get(url, 409, params={"step": "nowhere"})


async def test_an_unfinished_execution_has_no_result() -> None:
    async with talking(workers=0) as talk:
        await talk.register(TWO)
        execution_id = (await talk.start())["execution_id"]
        told = await talk.get(f"/api/executions/{execution_id}/result", 409)

        assert told["type"] == "urn:noetl:problem:not-ended"


@pytest.mark.req("EVT-02", "EVT-05")
async def test_a_page_of_large_events_is_shortened_and_has_a_next_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking() as talk:
        url = f"/api/executions/{await talk.ran()}/events"
        everything = (await talk.get(url))["events"]
        monkeypatch.setattr(inspection, "_PAGE_BYTES", 1_000)
        found: list[Any] = []
        page: dict[str, Any] = {"next": 0}
        while page["next"] is not None:
            page = await talk.get(url, params={"after": page["next"]})
            assert 0 < len(page["events"]) < len(everything)
            found += page["events"]

    assert found == everything


async def test_events_are_paged_filtered_and_listed_with_legacy_names() -> None:
    async with talking(tools={"python": ANSWERS}) as talk:
        execution_id = await talk.ran(TWO)
        url = f"/api/executions/{execution_id}/events"
        everything = (await talk.get(url))["events"]
        page = await talk.get(url, params={"limit": 3})
        rest = await talk.get(url, params={"after": page["next"]})
        steps = await talk.get(url, params={"types": "step.*,next.selected", "step": "end"})
        legacy = {one["name"] for one in (await talk.get(url, params={"names": "legacy"}))["events"]}

        assert [one["seq"] for one in everything] == list(range(1, len(everything) + 1))
        assert page["events"] + rest["events"] == everything
        assert rest["next"] is None
        assert {one["step"] for one in steps["events"]} == {"end"}
        assert {one["event_type"] for one in steps["events"]} == {
            "step.scheduled", "step.started", "step.done", "next.selected",
        }  # fmt: skip
        assert {"WorkflowStarted", "StepStarted", "ToolStarted", "ToolCompleted", "WorkflowFinished"} <= legacy
        for one in everything:
            assert (one["name"], one["timestamp"], one["data"]) == (one["event_type"], one["ts"], one["payload"])


@pytest.mark.req("EVT-07")
async def test_the_state_at_every_event_equals_the_fold_of_the_log() -> None:
    async with talking(tools={"python": ANSWERS}) as talk:
        execution_id = await talk.ran(TWO)
        url = f"/api/executions/{execution_id}/state"
        last = (await talk.get(f"/api/executions/{execution_id}"))["events"]
        states = [await talk.get(url, params={"at": at}) for at in range(1, last + 1)]
        now = await talk.get(url)

        assert now == states[-1]
        assert [state["at"] for state in states] == list(range(1, last + 1))
        assert states[0]["marking"] == {}
        assert {"end": 1} in [state["marking"] for state in states]
        assert now["status"] == "completed"
        assert now["ctx"]["n"] == 2
        for wrong in (0, last + 1, -1):
            await talk.get(url, 422, params={"at": wrong})


@pytest.mark.req("SRV-09")
async def test_tokens_show_their_place_and_what_they_wait_for() -> None:
    async with talking(workers=0) as talk:
        await talk.register(JOIN)
        execution_id = (await talk.start())["execution_id"]
        tokens = (await talk.get(f"/api/executions/{execution_id}/tokens"))["tokens"]
        found = {one["step"]: (one["state"], one["waits_for"]) for one in tokens}

        assert found["both"] == ("held", "the other tokens of its fork")
        assert found["b"] == ("queued", 'a worker of the pool "default" to take it')


@pytest.mark.req("SRV-09", "TMR-04")
async def test_a_token_at_a_timer_shows_its_due_time_and_alternatives() -> None:
    async with talking(workers=0) as talk:
        await talk.register(
            "workflow: [{step: start, timer: {until: '2099-01-02T03:04:05.678Z'}, "
            "message: {name: go, correlation: {n: 1}}}]"
        )
        url = f"/api/executions/{(await talk.start())['execution_id']}"
        while not (waiting := (await talk.get(f"{url}/tokens"))["tokens"]) or waiting[0]["state"] != "waiting":
            await asyncio.sleep(0.01)

        assert waiting[0]["waits_for"] == 'its timer, at 2099-01-02T03:04:05Z, or message "go" with {"n":1}'
        told = (await talk.get(f"{url}/explain"))["sentences"]
        assert told[-1] == "the next timer is due at 2099-01-02T03:04:05Z"


async def test_the_failed_step_of_an_execution_is_named() -> None:
    async with talking(tools={"python": Scripted(work=broken("py.exception", "it broke"))}) as talk:
        await talk.register(
            "workflow: [{step: start, tool: {kind: noop}, next: {arcs: [{step: fetch}]}}, "
            "{step: fetch, tool: {name: work, kind: python, code: x}}]"
        )
        execution_id = (await talk.start())["execution_id"]
        await until_status(talk, execution_id, "failed")

        told = (await talk.get(f"/api/executions/{execution_id}/explain"))["sentences"]
        assert told == ["the execution failed in step fetch: py.exception: it broke"]


async def test_durations_of_steps_and_tasks_can_be_read() -> None:
    async with talking(tools={"python": ANSWERS}) as talk:
        execution_id = await talk.ran(TWO)
        start, end = (await talk.get(f"/api/executions/{execution_id}/steps"))["steps"]

        assert (start["step"], start["status"], end["step"]) == ("start", "done", "end")
        assert start["scheduled_at"] <= start["started_at"] <= start["finished_at"] <= end["finished_at"]
        assert [(one["task"], one["status"], one["do"]) for one in start["tasks"]] == [("work", "success", "continue")]


async def test_logs_contain_task_output_and_errors() -> None:
    tool = Scripted(work=ToolResult(result=1, stdout="hello\n"), last=broken("py.exception", "it broke"))
    async with talking(tools={"python": tool}) as talk:
        execution_id = await talk.ran(TWO)
        lines = (await talk.get(f"/api/executions/{execution_id}/logs"))["lines"]
        first = await talk.get(f"/api/executions/{execution_id}/logs", params={"limit": 1})
        only = (await talk.get(f"/api/executions/{execution_id}/logs", params={"task": "last"}))["lines"]

        assert (lines[0]["step"], lines[0]["task"], lines[0]["stdout"]) == ("start", "work", "hello\n")
        assert lines[1]["error"]["message"] == "it broke"
        assert first["next"] == lines[0]["seq"]
        assert [one["task"] for one in only] == ["last"]


async def test_logs_are_filtered_by_text_level_and_failure_before_paging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = "\x1b[31mred\x1b[0m alert\nWARNING: late\n"
    tool = Scripted(work=ToolResult(result=1, stdout=printed), last=broken("py.exception", "it broke"))
    async with talking(tools={"python": tool}) as talk:
        execution_id = await talk.ran(TWO)

        async def tasks(**params: object) -> list[str]:
            page = await talk.get(f"/api/executions/{execution_id}/logs", params={"limit": 1, **params})
            return [one["task"] for one in page["lines"]]

        assert await tasks(find="RED ALERT") == ["work"]
        assert await tasks(find="it broke") == ["last"]
        assert await tasks(find="nowhere") == []
        assert await tasks(failed=True) == ["last"]
        assert await tasks(level="warning") == ["work"]
        assert await tasks(level="error") == ["last"]
        assert await tasks(path="3") == []

        monkeypatch.setattr("noetl.server.routes.inspection._MOST_LOG_EVENTS", 1)
        page = await talk.get(f"/api/executions/{execution_id}/logs", params={"find": "nowhere"})
        assert (page["lines"], page["next"] is None) == ([], False)


@pytest.mark.req("SRV-09")
async def test_a_template_is_rendered_against_a_past_execution() -> None:
    async with talking(tools={"python": ANSWERS}) as talk:
        execution_id = await talk.ran(TWO)

        async def rendered(template: object, status: int = 200, **more: object) -> object:
            body = {"execution_id": execution_id, "template": template, **more}
            told = await talk.post("/api/render", body, status)
            return told["value"] if status == 200 else told["detail"]

        assert await rendered("{{ workload.api_url }}") == "http://x"
        assert await rendered({"a": ["{{ ctx.n + 1 }}", "{{ start.rows | length }}"]}) == {"a": [3, 2]}
        assert await rendered("{{ args.k }}", step="end") == 7
        assert await rendered("{{ ctx.n is defined }}", at=4) is False
        assert await rendered("{{ keychain.pw }}") is None  # secrets are not there
        await rendered("{{ 1 +", 422)
        await rendered("{{ 'a' * 1000000000 }}", 422)
        await rendered(["{{ range(90000) | list | length }}"] * 9, 422)  # all of a request's share one budget
        await rendered("{{ 1 }}", 422, step="nowhere")


async def test_a_running_execution_is_drawn_and_explained() -> None:
    async with talking(workers=0) as talk:
        await talk.register(JOIN)
        execution_id = (await talk.start())["execution_id"]
        picture = await talk.client.get(f"/api/executions/{execution_id}/graph")
        plain = await talk.get(f"/api/executions/{execution_id}/graph", params={"format": "json"})
        why = await talk.get(f"/api/executions/{execution_id}/explain")

        assert picture.headers["content-type"] == "image/svg+xml"
        assert picture.text.startswith("<svg")
        assert {box["name"] for box in plain["drawing"]["boxes"]} == {"start", "a", "b", "both"}
        assert any("step both is held" in one for one in why["sentences"])


@pytest.mark.req("RES-01", "RES-03")
async def test_a_large_result_is_returned_whole() -> None:
    big = [{"n": n, "text": "x" * 50} for n in range(3000)]
    async with talking(tools={"python": Scripted(work=[big], last="bye")}) as talk:
        execution_id = await talk.ran(TWO)
        told = await talk.get(f"/api/executions/{execution_id}/result", params={"step": "start"})
        events = (await talk.get(f"/api/executions/{execution_id}/events"))["events"]

        assert told["result"] == big
        assert max(len(msgspec.json.encode(one["payload"])) for one in events) < 65_536


async def test_a_large_result_is_returned_in_pages_and_as_a_file() -> None:
    rows = [{"id": n, "name": f"order {n}"} for n in range(5_000)]
    async with talking(tools={"python": Scripted(work={"rows": rows}, last={"rows": rows})}) as talk:
        execution_id = await talk.ran(TWO)
        url = f"/api/executions/{execution_id}/result/part"
        root = await talk.get(url)
        page = await talk.get(url, params={"pointer": "/rows", "offset": 4_998, "limit": 10})
        state = await talk.get(f"/api/executions/{execution_id}/state")
        checksum = state["results"]["start"]["ref"]["checksum"]
        stored = await talk.get(f"/api/results/{checksum}/part", params={"pointer": "/rows", "limit": 1})
        file = await talk.client.get(f"/api/executions/{execution_id}/result/file")
        whole = await talk.client.get(f"/api/results/{checksum}")

        assert not root["is_whole"]
        assert [one["value"] for one in page["entries"]] == rows[4_998:]
        assert (stored["count"], stored["entries"][0]["value"]) == (5_000, rows[0])
        assert file.json() == {"rows": rows}
        assert "attachment" in file.headers["content-disposition"]
        # Whoever uses the browser next must not read it there: a stored answer needs no session.
        assert whole.status_code == 200
        assert {one.headers["cache-control"] for one in (file, whole)} == {"no-store"}
        await talk.get(url, 422, params={"pointer": "/nothing"})
        await talk.get(f"/api/results/{'0' * 64}/part", 404)
