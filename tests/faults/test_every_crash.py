"""A run stopped after each of its commits and taken up by another ends as an undisturbed one (SRV-12, WRK-04)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.events.tasks import TaskProcessed
from noetl.store.memory import MemoryStore
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of
from tests.narrowing import payloads
from tests.playbook_runs import Scripted, broken

PLAYBOOK = """
workflow:
  - step: start
    tool:
      - name: one
        kind: python
        code: x
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: 1}, set_iter: {k: 2}}}}]}}
      - name: two
        kind: python
        code: x
        args: {k: "{{ iter.k }}", prev: "{{ _prev.data }}"}
        spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3}}]}}
      - {name: three, kind: noop}
      - {name: four, kind: python, code: x, args: {prev: "{{ _prev.data }}"}}
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - step: left
    tool: {kind: python, code: x, args: {n: "{{ ctx.n }}"}}
    next: {arcs: [{step: end}]}
  - step: right
    tool: {kind: python, code: x}
  - step: end
    tool: {kind: noop, args: {sum: "{{ start.data + left.data + ctx.n }}"}}
"""
NET = net_of(PLAYBOOK)
TASK_RUNS = 6  # one, two twice, four, left and right


def fail_first(inputs: Any, context: Any) -> Any:
    return broken() if context.task_run.attempt == 1 else inputs["args"]["k"] * 10 + inputs["args"]["prev"]


def tool() -> Scripted:
    return Scripted(
        one=4,
        two=fail_first,
        four=lambda inputs, context: inputs["args"]["prev"] + 1,
        left_task=lambda inputs, context: inputs["args"]["n"] + 100,
    )


@pytest.mark.req("WRK-04", "EVT-07")
async def test_every_playbook_stopped_after_any_commit_reaches_the_same_end() -> None:
    whole = Recording()
    undisturbed = await drive(NET, whole, tool(), resumed=False)
    assert undisturbed.outputs.ends["end"].result == {"sum": 24 + 1 + 101 + 1}

    for length in range(1, len(whole.commits)):
        store = MemoryStore()
        for commits in whole.commits[:length]:
            await store.commit(commits)
        recorded = payloads(await store.events("x1"), TaskProcessed)
        by_tools = [one for one in recorded if one.task not in ("three", "end_task")]
        scripted = tool()

        execution = await drive(NET, store, scripted, resumed=True)

        assert execution.lifecycle.status == undisturbed.lifecycle.status
        assert execution.variables.ctx == undisturbed.variables.ctx
        assert execution.outputs.ends == undisturbed.outputs.ends
        assert execution.outputs.results == undisturbed.outputs.results
        assert len(by_tools) + len(scripted.calls) == TASK_RUNS, "no recorded task runs again, and none is left out"
