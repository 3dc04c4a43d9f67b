"""A nested playbook is undone by what its own steps registered, in an execution of its own (design.md §8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.control.nested.calls import StoreLibrary
from noetl.engine.execution import Execution
from noetl.events.executions import ExecutionRequested
from noetl.net.net import Net
from noetl.store.memory import MemoryStore
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of
from tests.narrowing import payload
from tests.playbook_runs import Scripted, broken

PARENT = """
executor: {spec: {policy: {compensation: auto}}}
workflow:
  - step: start
    tool: {kind: python, code: x}
    compensate: {spec: {idempotent: true}, tool: {kind: python, code: x}}
    next: {arcs: [{step: nested}]}
  - step: nested
    tool: {name: call, kind: playbook, path: jobs/child, args: {n: 7}}
    next: {arcs: [{step: ship}]}
  - {step: ship, tool: {kind: python, code: x}}
"""
CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: child, path: jobs/child}
workload: {n: 0}
workflow:
  - step: start
    tool: {name: reserve, kind: python, code: x}
    compensate:
      spec: {idempotent: true}
      tool: {kind: python, code: x, args: {id: "{{ result.id }}", n: "{{ workload.n }}"}}
    next: {arcs: [{step: book}]}
  - step: book
    tool: {name: book, kind: python, code: x}
    compensate: {spec: {idempotent: true}, tool: {kind: python, code: x, args: {id: "{{ result }}"}}}
"""


def nothing(file: Path) -> Net:
    raise AssertionError(f"{file} is not looked at here")


def tool(**more: Any) -> Scripted:
    return Scripted(**{"reserve": {"id": 1}, "book": 2, "ship_task": broken(), **more})


async def driven(store: MemoryStore, scripted: Scripted, *, parent: str = PARENT, resumed: bool = False) -> Execution:
    library = StoreLibrary(store, ManualClock(), compiled=nothing, runnable=lambda net: None)
    await library.register(net_of(CHILD))
    return await drive(net_of(parent), store, scripted, resumed=resumed, library=library)


UNDONE = [("book_compensate", {"id": 2}), ("start_compensate", {"id": 1, "n": 7}), ("start_compensate", None)]


def undone(scripted: Scripted) -> list[tuple[str, Any]]:
    return [(name, inputs.get("args")) for name, inputs in scripted.calls if name.endswith("_compensate")]


@pytest.mark.req("SAGA-02", "SAGA-04")
async def test_compensations_of_a_child_run_in_reverse_before_earlier_ones() -> None:
    store, scripted = MemoryStore(), tool()

    execution = await driven(store, scripted)

    assert execution.lifecycle.status == "failed"
    assert undone(scripted) == UNDONE
    rows = {row.execution_id: row for row in await store.executions()}
    assert sorted(row.status for row in rows.values()) == ["completed", "completed", "failed"]
    requests = [payload((await store.events(one))[0], ExecutionRequested) for one in rows]
    [undoing] = [one for one in requests if one.compensates is not None]
    assert (undoing.path, undoing.parent_execution_id) == ("jobs/child", "x1")


@pytest.mark.req("SAGA-03")
async def test_a_child_that_cannot_be_compensated_is_a_failed_compensation() -> None:
    store, scripted = MemoryStore(), tool(book_compensate=broken())

    execution = await driven(store, scripted)

    assert undone(scripted) == UNDONE, "the rest is undone all the same"
    names = [(event.event_type, event.step) for event in await store.events("x1")]
    assert ("compensation.failed", "nested") in names
    assert ("compensation.done", "start") in names
    assert execution.lifecycle.status == "failed"


@pytest.mark.req("SAGA-01")
async def test_a_compensation_of_the_calling_step_replaces_those_of_the_child() -> None:
    way = "next: {arcs: [{step: ship"
    own = 'compensate: {tool: {kind: python, code: x, args: {child: "{{ result.data }}"}}}'
    parent = PARENT.replace(way, f"{own}\n    {way}")
    scripted = tool()

    await driven(MemoryStore(), scripted, parent=parent)

    assert undone(scripted) == [("nested_compensate", {"child": 2}), ("start_compensate", None)]


@pytest.mark.req("SAGA-03", "SRV-12")
async def test_nested_compensation_stopped_after_any_commit_has_the_same_order() -> None:
    """All of them are idempotent here, so each may run again, but only the one that was interrupted."""
    whole = Recording()
    await driven(whole, tool())
    assert len(whole.commits) > 12

    for length in range(1, len(whole.commits)):
        store = MemoryStore()
        for commits in whole.commits[:length]:
            await store.commit(commits)

        execution = await driven(store, tool(), resumed=True)

        assert execution.lifecycle.status == "failed", length
        rows = await store.executions()
        assert sorted(row.status for row in rows) == ["completed", "completed", "failed"], length
        done = [
            (event.step, event.event_type)
            for row in rows
            for event in await store.events(row.execution_id)
            if event.event_type.startswith("compensation.d")
        ]
        assert sorted(done) == [(one, "compensation.done") for one in ("book", "nested", "start", "start")], length
