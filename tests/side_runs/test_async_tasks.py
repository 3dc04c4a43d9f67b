"""`spec.async`: a task runs beside its pipeline, and the execution ends after it (TOOL-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from noetl.events.side_runs import AsyncDone
from noetl.store.memory import MemoryStore
from noetl.tools.contract import ToolContext, ToolResult
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of
from tests.narrowing import payloads
from tests.playbook_runs import Scripted, broken, run_here
from tests.side_runs.async_playbook import ASYNC


class Slow(Scripted):
    """The insert goes on until the task after it has begun."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self._second = asyncio.Event()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.task_run.task == "second":
            self._second.set()
        elif context.task_run.task == "insert":
            await asyncio.wait_for(self._second.wait(), 60)
        return await super().run(inputs, context)


@pytest.mark.req("TOOL-12")
def test_the_next_task_starts_before_an_async_task_ends_and_the_execution_ends_after_it() -> None:
    ran = run_here(ASYNC, tool=Slow(first={"id": 7}, insert="inserted", second=2))

    accepted = next(one for one in ran.payloads("task.processed") if one.task == "insert")
    assert accepted.deferred
    assert accepted.outcome.result == {"task_run_id": accepted.task_run_id, "status": "running"}
    assert ran.tool.inputs_of("second")[0]["args"]["ref"]["status"] in ("running", "success")
    assert ran.tool.inputs_of("insert") == [{"args": {"row": 7, "table": "orders"}, "code": "x"}]
    [done] = ran.payloads("task.async_done")
    assert (done.task, done.task_run_id, done.result.result) == ("insert", accepted.task_run_id, "inserted")
    names = ran.types()
    assert names.index("task.async_done") < names.index("workflow.finished")
    assert ran.result.status == "completed"


@pytest.mark.req("TOOL-12")
def test_a_failing_async_task_fails_the_execution() -> None:
    ran = run_here(ASYNC, first={"id": 7}, insert=broken(message="no such table"))

    assert ran.result.status == "failed"
    assert ran.result.error is not None
    assert ran.result.error.message == "no such table"
    assert ran.types().count("step.done") == 1, "the step itself had gone on"


@pytest.mark.req("TOOL-12")
def test_async_inputs_that_cannot_be_rendered_are_an_ordinary_error() -> None:
    ran = run_here(ASYNC.replace("{{ first.id }}", "{{ 1 // first.id }}"), first={"id": 0})

    assert ran.types().count("task.async_started") == 0
    assert ran.result.status == "failed"


@pytest.mark.req("TOOL-12")
def test_iterations_can_have_async_tasks() -> None:
    text = """
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
    tool: {name: insert, kind: python, code: x, args: {x: "{{ iter.x }}", i: "{{ iter.index }}"}, spec: {async: true}}
"""
    ran = run_here(text, insert=lambda inputs, context: inputs["args"])

    done = sorted((one.result.result["x"], one.result.result["i"]) for one in ran.payloads("task.async_done"))
    assert done == [(1, 0), (2, 1), (3, 2)]
    assert ran.result.status == "completed"


@pytest.mark.req("TOOL-12", "SRV-12")
async def test_an_async_task_survives_a_stop_after_any_commit() -> None:
    net, whole = net_of(ASYNC), Recording()
    answers: dict[str, Any] = {"first": {"id": 7}, "insert": "inserted", "second": 2}
    await drive(net, whole, Scripted(**answers), resumed=False)

    for length in range(1, len(whole.commits)):
        store = MemoryStore()
        for commits in whole.commits[:length]:
            await store.commit(commits)

        execution = await drive(net, store, Scripted(**answers), resumed=True)

        done = payloads(await store.events("x1"), AsyncDone)
        assert [one.result.result for one in done] == ["inserted"], length
        assert execution.lifecycle.status == "completed"
        assert execution.side_work.step_runs == {}


CASE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: case_async, path: tests/case_async}
workflow:
  - step: start
    tool: {kind: python, code: x, spec: {async: true}}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then:
          - save: {tool: {kind: python, code: x, args: {r: "{{ response.status }}"}, spec: {async: true}}}
          - next: {next: [{step: end}]}
  - {step: end, tool: {kind: python, code: x}}
"""


@pytest.mark.req("TOOL-12", "V2C-02")
def test_calls_and_tools_of_rules_can_be_async() -> None:
    ran = run_here(CASE, start_task="called", save="saved")

    assert ran.tool.inputs_of("save")[0]["args"] == {"r": "running"}, "the rule saw that the call was accepted"
    done = {one.task: one.result.result for one in ran.payloads("task.async_done")}
    assert done == {"start_task": "called", "save": "saved"}
    assert ran.result.status == "completed"
