"""Forks, joins, limits and nested playbooks, stopped after each commit and taken up: the same end (SRV-12, TOOL-11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.control.nested.calls import StoreLibrary
from noetl.engine.execution import Execution
from noetl.net.net import Net
from noetl.store.memory import MemoryStore
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of
from tests.playbook_runs import Scripted

PARENT = net_of(
    """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, spec: {tokens: 3}}, {step: gate}]}
  - step: a
    tool:
      - name: first
        kind: python
        code: x
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: 1}}}}]}}
      - {name: child, kind: playbook, path: jobs/child, args: {n: 4}}
    next: {arcs: [{step: merge, args: {a: "{{ event.result }}"}}]}
  - step: b
    spec: {concurrency: {limit: 1}}
    tool: {kind: python, code: x}
    next: {arcs: [{step: merge, args: {b: "{{ event.result }}"}}]}
  - step: gate
    spec:
      policy:
        admit: {rules: [{when: "{{ ctx.n | default(0) > 0 }}", then: {allow: true}}, {else: {then: {park: true}}}]}
    tool: {kind: playbook, path: jobs/child, args: {n: 1}, spec: {async: true}}
  - step: merge
    spec: {join: all}
    set_ctx: {inputs: "{{ args }}"}
    tool: {kind: python, code: x, args: {inputs: "{{ token.inputs | length }}"}}
"""
)
CHILD = net_of(
    """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: child, path: jobs/child}
workload: {n: 0}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - {step: left, tool: {kind: python, code: x, args: {n: "{{ workload.n }}"}}, next: {arcs: [{step: end}]}}
  - {step: right, tool: {kind: python, code: x}, next: {arcs: [{step: end}]}}
  - step: end
    spec: {join: all}
    tool: {kind: noop, args: {sum: "{{ left.data + right.data }}"}}
"""
)


def tool() -> Scripted:
    return Scripted(
        first=1,
        left_task=lambda inputs, context: inputs["args"]["n"] * 10,
        right_task=2,
        b_task=7,
        merge_task=lambda inputs, context: inputs["args"]["inputs"],
    )


def nothing(file: Path) -> Net:
    raise AssertionError(f"{file} is not looked at here")


async def drive_with_child(store: MemoryStore, scripted: Scripted, *, resumed: bool) -> Execution:
    library = StoreLibrary(store, ManualClock(), compiled=nothing, runnable=lambda net: None)
    await library.register(CHILD)
    return await drive(PARENT, store, scripted, resumed=resumed, library=library)


async def told(store: MemoryStore) -> dict[str, Any]:
    """What must be the same however often the run was interrupted."""
    rows = await store.executions()
    return {row.execution_id: (row.path, row.status, row.parent_execution_id) for row in rows}


@pytest.mark.req("SRV-12", "TOOL-11", "ROUTE-11")
async def test_every_nested_playbook_stopped_after_any_commit_reaches_the_same_end() -> None:
    whole = Recording()
    undisturbed = await drive_with_child(whole, tool(), resumed=False)
    assert undisturbed.lifecycle.status == "completed"
    assert undisturbed.variables.ctx == {"n": 1, "inputs": {"a": {"sum": 42}, "b": 7}}
    assert undisturbed.outputs.results["merge"].result == 4
    everything = await told(whole)
    assert len(everything) == 3

    for length in range(1, len(whole.commits)):
        store = MemoryStore()
        for commits in whole.commits[:length]:
            await store.commit(commits)

        execution = await drive_with_child(store, tool(), resumed=True)

        assert execution.lifecycle.status == undisturbed.lifecycle.status, f"after commit {length}"
        assert execution.variables.ctx == undisturbed.variables.ctx, f"after commit {length}"
        assert execution.outputs.results["merge"].result == 4
        assert await told(store) == everything
        assert execution.held.forks == {}
        assert execution.held.slots == {}
