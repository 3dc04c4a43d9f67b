"""The last runs of a playbook, step by step, and what began and ended by hour and by day."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.base.clock import ManualClock
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.loops import LoopStarted
from noetl.server.workers import LIVE_S
from noetl.store.contract import EventFilter
from noetl.store.memory import MemoryStore
from tests.engine_script import playbook
from tests.server.talking import Talk, talking

MOSTLY = """
workload: {fail: false}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: load}]}
  - step: load
    tool: {kind: noop, args: {share: "{{ 1 / (0 if workload.fail else 1) }}"}}
"""


async def _ended(talk: Talk, execution_id: str) -> None:
    while (await talk.get(f"/api/executions/{execution_id}"))["finished_at"] is None:
        await asyncio.sleep(0.01)


async def test_the_runs_of_a_playbook_show_the_outcome_of_each_step() -> None:
    async with talking() as talk:
        await talk.register(MOSTLY)
        for fail in (False, True):
            await _ended(talk, (await talk.start(payload={"fail": fail}))["execution_id"])

        told = await talk.get("/api/catalog/tests/test/runs")

    newest, oldest = told["runs"]
    assert (newest["status"], newest["failed_step"], newest["version"]) == ("failed", "load", 1)
    assert "division by zero" in newest["reason"]
    assert [(one["step"], one["status"]) for one in newest["steps"]] == [("start", "done"), ("load", "failed")]
    assert (oldest["status"], oldest["reason"]) == ("completed", None)
    assert (told["ended"], told["completed"]) == (2, 1)
    assert told["p95_s"] >= told["p50_s"] >= 0


async def test_a_draft_is_listed_and_not_counted() -> None:
    async with talking() as talk:
        await talk.register(MOSTLY)
        await _ended(talk, (await talk.start())["execution_id"])
        draft = {"source": playbook(MOSTLY.replace("step: load", "step: lode")), "payload": {"fail": True}}
        begun = await talk.client.post("/api/executions/draft", json=draft)
        await _ended(talk, begun.raise_for_status().json()["execution_id"])

        told = await talk.get("/api/catalog/tests/test/runs")

    assert [(one["version"], one["status"]) for one in told["runs"]] == [(None, "failed"), (1, "completed")]
    assert (told["ended"], told["completed"]) == (1, 1)


PARTLY = """
workload: {orders: [1, 0, 2]}
workflow:
  - step: start
    loop: {in: "{{ workload.orders }}", iterator: order}
    spec: {policy: {failure: {mode: best_effort}}}
    tool: {kind: noop, args: {share: "{{ 1 / iter.order }}"}}
    next: {arcs: [{step: report}]}
  - step: report
    tool: {kind: noop}
"""


async def test_partial_reruns_are_not_counted_and_failed_item_reruns_are_a_class_of_their_own() -> None:
    async with talking() as talk:
        await talk.register(PARTLY)
        whole = (await talk.start())["execution_id"]
        await _ended(talk, whole)
        for asked in ({"from": "report"}, {"failed_items": True}):
            again = await talk.post(f"/api/executions/{whole}/rerun", asked, 201)
            await _ended(talk, again["execution_id"])

        told = await talk.get("/api/catalog/tests/test/runs")
        cost = await talk.post("/api/cost", {"source": playbook(PARTLY)})

    assert [one["from_step"] for one in told["runs"]] == ["start", "report", None]
    assert (told["ended"], told["completed"], told["with_failed_items"]) == (1, 1, 1)
    assert cost["executions"] == 1


async def test_a_successfully_rerun_failure_is_no_failure_and_both_runs_name_each_other() -> None:
    async with talking() as talk:
        await talk.register(PARTLY)
        first = (await talk.start())["execution_id"]
        await _ended(talk, first)
        of_a_part = await _again(talk, first, {"from": "report"})
        still = await _again(talk, first, {"failed_items": True})
        before = [one["execution_id"] for one in (await talk.get("/api/trends"))["failures"]]
        mended = await _again(talk, still, {"payload": {"orders": [1, 2]}})
        after = [one["execution_id"] for one in (await talk.get("/api/trends"))["failures"]]
        told = await talk.get(f"/api/executions/{first}")
        partial = await talk.get(f"/api/executions/{still}")
        [loop] = (await talk.get(f"/api/executions/{still}/loops"))["loops"]
        own = {"step_run_id": loop["step_run_id"]}
        items = [await talk.get(f"/api/executions/{still}/iteration", params={**own, "path": n}) for n in (0, 1)]
        last = await talk.get(f"/api/executions/{mended}")

    assert before == [still, first]
    assert after == []
    assert [one["execution_id"] for one in told["reruns"]] == [of_a_part, still]
    assert (last["rerun_of"], last["from_step"], last["reruns"]) == (still, None, [])
    assert (partial["from_step"], partial["rerun_items"]) == ("start", {"kept": 2, "total": 3, "indices": [1]})
    assert (told["rerun_items"], last["rerun_items"]) == (None, None)
    assert (loop["blocks"], loop["done"], loop["kept"], loop["failed"]) == ({"0": "434"}, 2, 2, 1)
    assert [(one["status"], one["item"]) for one in items] == [("kept", 1), ("failed", 0)]


async def test_a_rerun_of_items_that_are_stored_apart_names_those_it_ran() -> None:
    lines = [n or "x" * 2_000_000 for n in range(30)]  # too large for an event
    async with talking(max_body_bytes=8_000_000) as talk:
        await talk.register(PARTLY)
        first = str((await talk.start(payload={"orders": lines}))["execution_id"])
        await _ended(talk, first)
        again = await _again(talk, first, {"failed_items": True})
        [_, begun, *_] = [
            one
            for one in await talk.services.store.events(again)
            if isinstance(one.payload, (ExecutionRequested, LoopStarted))
        ]
        told = await talk.get(f"/api/executions/{again}")

    assert isinstance(begun.payload, LoopStarted)
    assert (begun.payload.items, told["rerun_items"]) == (None, {"kept": 29, "total": 30, "indices": [0]})


async def _again(talk: Talk, execution_id: str, asked: dict[str, Any]) -> str:
    again = str((await talk.post(f"/api/executions/{execution_id}/rerun", asked, 201))["execution_id"])
    await _ended(talk, again)
    return again


TWO_FAIL = """
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: first}, {step: between}]}
  - step: first
    tool: {kind: noop, args: {share: "{{ 1 / 0 }}"}}
  - step: between
    tool: {kind: noop}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, args: {sum: "{{ 'a' + 1 }}"}}
"""


async def test_the_named_step_is_the_one_with_the_shown_error() -> None:
    async with talking() as talk:
        await talk.register(TWO_FAIL)
        execution_id = (await talk.start())["execution_id"]
        await _ended(talk, execution_id)

        told = await talk.get(f"/api/executions/{execution_id}")
        (listed,) = (await talk.get("/api/catalog/tests/test/runs"))["runs"]
        explained = (await talk.get(f"/api/executions/{execution_id}/explain"))["sentences"]

    assert "division by zero" in str(told["error"])
    assert "division by zero" in listed["reason"]
    assert (told["failed_step"], listed["failed_step"]) == ("first", "first")
    assert explained[0].startswith("the execution failed in step first: ")


async def test_the_error_of_a_task_takes_precedence_over_the_routing_error_it_caused() -> None:
    undecided = """{kind: noop, args: {share: "{{ 1 / 0 }}"}}
    next: {arcs: [{step: last, when: "{{ first | length > 0 }}"}]}"""
    async with talking() as talk:
        await talk.register(TWO_FAIL.replace('{kind: noop, args: {share: "{{ 1 / 0 }}"}}', undecided))
        execution_id = (await talk.start())["execution_id"]
        await _ended(talk, execution_id)

        told = await talk.get(f"/api/executions/{execution_id}")
        (listed,) = (await talk.get("/api/catalog/tests/test/runs"))["runs"]

    consequence = '; and so the arc of step "first" to "last" could not be decided: null has no length'
    assert "division by zero" in told["error"]["message"]
    assert told["error"]["message"].endswith(consequence)
    assert listed["reason"] == told["error"]["message"]
    assert (told["failed_step"], listed["failed_step"]) == ("first", "first")


HANDLED_THEN_WAITS = """
workflow:
  - step: start
    tool: {kind: noop, args: {share: "{{ 1 / 0 }}"}}
    next: {arcs: [{step: hold, when: "{{ event.name == 'step.failed' }}"}]}
  - step: hold
    message: {name: go}
"""


async def test_a_cancelled_run_names_no_handled_failure() -> None:
    async with talking() as talk:
        await talk.register(HANDLED_THEN_WAITS)
        execution_id = (await talk.start())["execution_id"]
        while not (await talk.get(f"/api/executions/{execution_id}/tokens"))["tokens"]:
            await asyncio.sleep(0.01)
        await talk.post(f"/api/executions/{execution_id}/cancel", {"reason": "no longer wanted"})
        await _ended(talk, execution_id)

        told = await talk.get(f"/api/executions/{execution_id}")
        (listed,) = (await talk.get("/api/catalog/tests/test/runs"))["runs"]

    assert (told["status"], told["failed_step"], listed["failed_step"]) == ("cancelled", None, None)
    assert "no longer wanted" in listed["reason"]


async def test_the_runs_of_an_unknown_playbook_are_not_found() -> None:
    async with talking() as talk:
        told = await talk.get("/api/catalog/tests/nowhere/runs", 404)

    assert "tests/nowhere" in told["detail"]


async def test_trends_count_by_hour_and_by_day() -> None:
    async with talking() as talk:
        await talk.register(MOSTLY)
        await _ended(talk, (await talk.start(payload={"fail": True}))["execution_id"])

        hours, days = await talk.get("/api/trends"), await talk.get("/api/trends?by=day")

    assert (len(hours["spans"]), len(days["spans"])) == (24, 30)
    # an hour may end between the start and the question
    assert sum(one["started"] for one in hours["spans"][-2:]) == 1
    assert sum(one["failed"] for one in days["spans"][-2:]) == 1


async def test_the_overview_counts_live_workers_only() -> None:
    clock = ManualClock(1_000_000.0)
    async with talking(workers=0, clock=clock) as talk:
        await talk.as_worker()
        here = (await talk.get("/api/overview"))["workers"]
        clock.advance(LIVE_S)  # it says nothing more; the roster keeps its row for a day
        gone = (await talk.get("/api/overview"))["workers"]

    assert (here, gone) == (1, 0)


async def test_the_times_of_a_cron_expression_can_be_previewed() -> None:
    async with talking() as talk:
        told = await talk.get("/api/cron?cron=30 2 * * *&timezone=Europe/Berlin&count=3")
        wrong = await talk.get("/api/cron?cron=99 * * * *", 422)
        nowhere = await talk.get("/api/cron?cron=0 0 * * *&timezone=Mars", 422)
        short = await talk.get("/api/cron?cron=daily", 422)

    assert [one[11:19] for one in told["next"]] == ["02:30:00"] * 3
    assert "is not a cron schedule" in wrong["detail"]
    assert "is not a time zone" in nowhere["detail"]
    assert "is not five fields" in short["detail"]


async def test_the_audit_names_started_and_registered_playbooks() -> None:
    async with talking() as talk:
        await talk.register(MOSTLY)
        await talk.start()
        objects = [row["object"] for row in (await talk.get("/api/audit"))["rows"]]

    assert any(one.startswith("/api/executions?path=tests/test&execution_id=") for one in objects)
    assert "/api/catalog?path=tests/test&version=1" in objects


CHECKED = """
  - step: check
    next: {arcs: [{step: load}]}
"""


class _CountedLog(MemoryStore):
    read_logs = 0

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        self.read_logs += 1
        return await super().events(execution_id, after=after, only=only)


async def test_a_draft_shows_step_durations_of_ended_executions() -> None:
    store = _CountedLog()
    async with talking(store=store) as talk:
        await talk.register(MOSTLY)
        for fail in (False, True):
            await _ended(talk, (await talk.start(payload={"fail": fail}))["execution_id"])
        draft = playbook(MOSTLY.replace("{step: load}", "{step: check}") + CHECKED)

        told = await talk.post("/api/cost", {"source": draft})
        read = store.read_logs
        assert await talk.post("/api/cost", {"source": draft}) == told
        assert store.read_logs == read  # what is over is read once
        elsewhere = await talk.post("/api/cost", {"source": draft, "path": "tests/*"})
        broken = await talk.post("/api/cost", {"source": "a: 1"}, 422)

    assert told["executions"] == 2
    by_name = {one["step"]: one for one in told["steps"]}
    assert (by_name["start"]["runs"], by_name["start"]["is_critical"]) == (2, True)
    assert by_name["load"]["runs"] == 1  # it failed the second time, which does not say how long it takes
    assert (by_name["check"]["runs"], by_name["check"]["median_s"]) == (0, None)
    assert told["total_s"] >= by_name["start"]["median_s"] >= 0
    assert (elsewhere["executions"], elsewhere["total_s"]) == (0, None)
    assert broken["diagnostics"]
