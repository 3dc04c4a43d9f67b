"""The folded state of an execution over HTTP: its steps, side runs and loops, now, at any event, and as it changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from noetl.server.views.states import StateHistories
from noetl.store.contract import EventFilter, ExecutionRow
from noetl.tools.contract import ToolResult
from tests.playbook_runs import Scripted, broken
from tests.server.talking import Talk, talking

LOOPED = """
workflow:
  - step: start
    loop: {in: "{{ [3, 0, 5] }}", iterator: x}
    spec: {policy: {failure: {mode: best_effort}}}
    tool: {name: work, kind: python, code: x}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop}}
"""
NESTED = """
workflow:
  - step: start
    loop: {in: "{{ [1, 2] }}", iterator: x, loop: {in: "{{ [1, 2, 3] }}", iterator: y}}
    tool: {name: work, kind: python, code: x}
"""


def tools() -> dict[str, Any]:
    return {"python": Scripted(work=[ToolResult(result=1, stdout="one\n"), broken("py.exception", "no zero"), 3])}


async def moments(talk: Talk, execution_id: str) -> list[dict[str, Any]]:
    last = (await talk.get(f"/api/executions/{execution_id}"))["events"]
    url = f"/api/executions/{execution_id}/projection"
    return [await talk.get(url, params={"at": at}) for at in range(1, last + 1)]


async def test_the_state_shows_the_results_of_a_loop_and_nothing_of_how_templates_read_them() -> None:
    async with talking(tools={"python": Scripted(work=1)}) as talk:
        execution_id = await talk.ran(NESTED)
        state = await talk.get(f"/api/executions/{execution_id}/state")

        assert list(state["results"]["start"]) == ["result"]


@pytest.mark.req("EVT-07")
async def test_the_state_after_any_event_and_the_changes_between_two_can_be_read() -> None:
    async with talking(tools=tools()) as talk:
        execution_id = await talk.ran(LOOPED)
        url = f"/api/executions/{execution_id}/projection"
        now, told = await talk.get(url), await moments(talk, execution_id)

        assert told[-1] == now
        start, end = sorted(now["steps"], key=lambda one: one["step"] != "start")
        assert (start["status"], start["done"], start["loop"]) == (
            "done",
            1,
            {"total": 3, "done": 2, "failed": 1, "unrun": 0, "passed_over": 0},
        )
        assert (end["status"], end["tokens"], end["running"], end["loop"]) == ("done", 0, 0, None)
        assert [one["at"] for one in told] == list(range(1, now["at"] + 1))
        assert (told[0]["status"], now["status"]) == ("running", "completed")
        shown: dict[str, Any] = {one["step"]: one for one in told[0]["steps"]}
        for before, after in pairwise(told):
            changes = await talk.get(url, params={"at": after["at"], "since": before["at"]})
            shown |= {one["step"]: one for one in changes["steps"]}
            assert len(changes["steps"]) <= 2, "an event changes the steps it is about"
            assert shown == {one["step"]: one for one in after["steps"]}
        assert (await talk.get(url, params={"since": now["at"]}))["steps"] == []


async def test_an_invalid_position_is_refused() -> None:
    async with talking(tools=tools()) as talk:
        execution_id = await talk.ran(LOOPED)
        url = f"/api/executions/{execution_id}"
        last = (await talk.get(url))["events"]

        for path, params, found in (
            ("projection", {"at": last + 1}, f"events 1 to {last}"),
            ("loops", {"at": last + 1}, f"events 1 to {last}"),
            ("projection", {"at": 3, "since": 4}, "since: 4 is after event 3"),
            ("iteration", {"step_run_id": "r", "path": "1.x"}, "path"),
        ):
            answer = await talk.client.get(f"{url}/{path}", params=params)
            assert answer.status_code == 422
            assert found in answer.text
        for path in ("projection", "loops"):
            assert (await talk.client.get(f"/api/executions/none/{path}")).status_code == 404
        missing = await talk.client.get(f"{url}/iteration", params={"step_run_id": "r", "path": "7"})
        assert (missing.status_code, "no iteration 7 in step run r" in missing.text) == (404, True)


async def test_loops_have_one_digit_per_iteration_at_any_event() -> None:
    async with talking(tools=tools()) as talk:
        execution_id = await talk.ran(LOOPED)
        url = f"/api/executions/{execution_id}/loops"
        now = await talk.get(url)
        [loop] = now["loops"]

        assert (loop["step"], loop["path"], loop["total"], loop["done"], loop["failed"]) == ("start", [], 3, 2, 1)
        assert loop["blocks"] == {"0": "232"}
        assert [(one["index"], one["message"]) for one in loop["failures"]] == [(1, "no zero")]
        seen = [(await talk.get(url, params={"at": at}))["loops"] for at in range(1, now["at"] + 1)]
        cells = [loops[0]["blocks"]["0"] for loops in seen if loops]
        assert list(dict.fromkeys(cells)) == ["000", "100", "200", "210", "230", "231", "232"]
        [unchanged] = (await talk.get(url, params={"since": now["at"]}))["loops"]
        assert (unchanged["blocks"], unchanged["failures"], unchanged["done"]) == ({}, [], 2)
        assert (await talk.get(url, params={"step": "end"}))["loops"] == []


async def test_one_iteration_shows_its_item_attempts_and_outcome() -> None:
    async with talking(tools=tools()) as talk:
        execution_id = await talk.ran(LOOPED)
        url = f"/api/executions/{execution_id}"
        run = (await talk.get(f"{url}/loops"))["loops"][0]["step_run_id"]
        first, second = [
            await talk.get(f"{url}/iteration", params={"step_run_id": run, "path": path}) for path in ("0", "1")
        ]

        assert (first["status"], first["has_item"], first["item"]) == ("done", True, 3)
        assert [(one["task"], one["status"], one["stdout"]) for one in first["tries"]] == [("work", "success", "one\n")]
        assert first["started_at"] <= first["finished_at"]
        assert (second["status"], second["item"], second["error"]["message"]) == ("failed", 0, "no zero")


async def test_nested_loops_of_one_iteration_are_listed() -> None:
    async with talking(tools={"python": Scripted(work=1)}) as talk:
        url = f"/api/executions/{await talk.ran(NESTED)}"
        [around] = (await talk.get(f"{url}/loops"))["loops"]
        asked = {"step_run_id": around["step_run_id"], "path": "1.2"}
        told = (await talk.get(f"{url}/loops", params=asked))["loops"]
        inner = await talk.get(f"{url}/iteration", params=asked)

        assert [(one["path"], one["blocks"]["0"]) for one in told] == [([], "22"), ([1], "222")]
        assert (inner["status"], inner["path"], inner["item"]) == ("done", [1, 2], 3)


class CountedReads:
    """The events of a store, with how many were read."""

    def __init__(self, talk: Talk) -> None:
        self._store, self.read = talk.services.store, 0

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> Any:
        found = await self._store.events(execution_id, after=after, only=only)
        self.read += len(found)
        return found


async def row_of(talk: Talk, execution_id: str) -> ExecutionRow:
    row = await talk.services.store.execution(execution_id)
    assert row is not None
    return row


async def test_a_log_is_folded_once_and_evicted_under_memory_pressure() -> None:
    async with talking(tools={"python": Scripted(work=1)}) as talk:
        first, second = [await row_of(talk, await talk.ran(NESTED)) for _ in range(2)]
        reads: Any = CountedReads(talk)
        histories = StateHistories(reads)

        one = await histories.of(first)
        assert await histories.of(first) is one
        assert reads.read == one.seq == first.last_seq
        await histories.of(second)
        assert len(histories) == 2
        small = StateHistories(reads, most_bytes=one.size_bytes + 1)
        await small.of(first)
        await small.of(second)
        assert len(small) == 1
        none = StateHistories(reads, most_bytes=10)
        assert (await none.of(first)).seq == first.last_seq
        assert len(none) == 0
