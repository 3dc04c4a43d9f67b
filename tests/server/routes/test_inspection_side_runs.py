"""What runs beside tokens, over HTTP: in the views of tokens, steps and explanations (SAGA-02, ADV-01, TOOL-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from noetl.tools.contract import ToolContext, ToolResult
from tests.playbook_runs import Scripted, broken
from tests.server.held_executions import until_status
from tests.server.talking import Talk, talking

BESIDE = """
workflow:
  - step: start
    tool:
      - {name: quick, kind: python, code: x}
      - {name: slow, kind: python, code: x, spec: {async: true}}
    compensate: {spec: {idempotent: true}, tool: {name: undo, kind: python, code: x}}
    next: {arcs: [{step: breaks}]}
  - step: breaks
    tool: {name: fails, kind: python, code: x}
    next: {arcs: [{step: sorry, when: "{{ event.name == 'step.failed' }}", spec: {trigger_compensation: true}}]}
  - {step: sorry, tool: {kind: noop}}
"""
HANDLED = """
workflow:
  - step: start
    message: {name: go}
    on_event: {handlers: [{event: audit.required, then: [{name: audit, kind: python, code: x}]}]}
"""


class Gated(Scripted):
    """Some tasks go on when the test says so."""

    def __init__(self, *gated: str, **answers: Any) -> None:
        super().__init__(**answers)
        self._gated, self.gate = gated, asyncio.Event()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.task_run.task in self._gated:
            await self.gate.wait()
        return self.answer(inputs, context)


async def side_run(talk: Talk, execution_id: str, kind: str, state: str) -> dict[str, Any]:
    """Once there is such a one."""
    async with asyncio.timeout(60):
        while True:
            told = await talk.get(f"/api/executions/{execution_id}/tokens")
            for one in told["side_runs"]:
                if (one["kind"], one["state"]) == (kind, state):
                    found: dict[str, Any] = one
                    return found
            await asyncio.sleep(0.02)


@pytest.mark.req("SAGA-02", "TOOL-12")
async def test_running_side_runs_are_listed_explained_and_then_in_the_timeline() -> None:
    tool = Gated("undo", "slow", fails=broken())
    async with talking(tools={"python": tool}) as talk:
        await talk.register(BESIDE)
        execution_id = (await talk.start())["execution_id"]

        undo = await side_run(talk, execution_id, "compensation", "running")
        slow = await side_run(talk, execution_id, "async", "running")
        assert (undo["step"], undo["task"]) == ("start", "undo")
        assert undo["worker_id"] in undo["waits_for"]
        assert undo["lease_until"] in undo["waits_for"]
        assert (slow["task"], slow["owner"]) != (None, None)
        explained = await talk.get(f"/api/executions/{execution_id}/explain")
        assert [one["kind"] for one in explained["side_runs"]] == ["async", "compensation"]
        said = " | ".join(explained["sentences"])
        assert "the compensation of step start, task undo is running: it waits for worker" in said
        assert "an asynchronous task of step start, task slow is running" in said
        assert "step sorry is held: it waits for everything to be undone that was done" in said
        bars = {one["kind"]: one for one in (await talk.get(f"/api/executions/{execution_id}/steps"))["side_runs"]}
        assert {kind: bar["status"] for kind, bar in bars.items()} == {"async": "running", "compensation": "running"}

        tool.gate.set()
        await until_status(talk, execution_id, "completed")

        told = await talk.get(f"/api/executions/{execution_id}/steps")
        bars = {one["kind"]: one for one in told["side_runs"]}
        assert {kind: bar["status"] for kind, bar in bars.items()} == {"async": "done", "compensation": "done"}
        done = bars["compensation"]
        assert done["scheduled_at"] <= done["started_at"] <= done["finished_at"]
        assert done["task_runs"] == 1
        assert [bar["step"] for bar in told["steps"]] == ["start", "breaks", "sorry"]
        assert (await talk.get(f"/api/executions/{execution_id}/tokens"))["side_runs"] == []


@pytest.mark.req("ADV-01")
async def test_a_handler_is_listed_and_then_in_the_timeline() -> None:
    tool = Gated("audit", audit=broken())
    async with talking(tools={"python": tool}) as talk:
        await talk.register(HANDLED)
        execution_id = (await talk.start())["execution_id"]
        await talk.post(f"/api/executions/{execution_id}/events", {"name": "audit.required"}, 202)

        handler = await side_run(talk, execution_id, "handler", "running")
        assert (handler["step"], handler["event"], handler["task"]) == ("start", "audit.required", "audit")

        tool.gate.set()
        async with asyncio.timeout(60):
            while True:
                [bar] = (await talk.get(f"/api/executions/{execution_id}/steps"))["side_runs"]
                if bar["finished_at"] is not None:
                    break
                await asyncio.sleep(0.02)
        assert (bar["kind"], bar["event"], bar["status"]) == ("handler", "audit.required", "failed")
        assert bar["error"]["kind"] == "py.exception"


@pytest.mark.req("POL-13")
async def test_a_failed_hook_is_in_the_timeline() -> None:
    text = """
workflow:
  - step: start
    tool:
      name: work
      kind: python
      code: x
      spec: {policy: {before: [{name: look, kind: python, code: x}], rules: [{else: {then: {do: continue}}}]}}
"""
    async with talking(tools={"python": Scripted(look=broken(message="it is dark"))}) as talk:
        execution_id = await talk.ran(text)

        [hook] = (await talk.get(f"/api/executions/{execution_id}/steps"))["side_runs"]

        assert (hook["kind"], hook["step"], hook["task"], hook["event"]) == ("hook", "start", "look", "before")
        assert hook["error"]["message"] == "it is dark"
