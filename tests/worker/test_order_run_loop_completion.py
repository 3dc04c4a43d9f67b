"""Loops that end early, and loops that grow (beyond.md §1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.playbook_runs import Ran, Scripted, run_here
from tests.worker.loop_gate import Gate, always, unhurried, x_of

__all__ = ["unhurried"]


def run(loop: dict[str, Any], *rules: dict[str, Any], tool: Scripted | None = None, **answers: Any) -> Ran:
    task: dict[str, Any] = {"name": "work", "kind": "python", "code": "x", "args": {"x": "{{ iter.x }}"}}
    if rules:
        task["spec"] = {"policy": {"rules": list(rules)}}
    workflow = [
        {"step": "start", "loop": loop, "tool": task, "next": {"arcs": [{"step": "end"}]}},
        {"step": "end", "tool": {"kind": "noop", "args": {"got": "{{ start.data }}"}}},
    ]
    return run_here(f"workflow: {json.dumps(workflow)}\n", tool=tool, **answers)


def test_a_sequential_loop_stops_when_its_condition_holds() -> None:
    ran = run(
        {"in": [1, 2, 3, 4], "iterator": "x", "spec": {"complete_when": "{{ iter.result == 20 }}"}}, work=[10, 20, 30]
    )

    assert ran.result.result == {"got": [10, 20, None, None]}
    assert len(ran.tool.calls) == 2
    [done] = ran.payloads("loop.done")
    assert (done.total, done.done, done.failed) == (4, 2, 0)


@pytest.mark.parametrize("where", ["local", "distributed"])
def test_a_quorum_of_parallel_iterations_ends_the_loop_and_cancels_the_rest(where: str) -> None:
    spec = {"mode": "parallel", "max_in_flight": 2, "complete_when": "{{ iter.done >= 3 }}", "policy": {"exec": where}}
    ran = run({"in": list(range(20)), "iterator": "x", "spec": spec}, tool=Gate(work=x_of))

    [done] = ran.payloads("loop.done")
    assert (done.total, done.done) == (20, 3)
    assert len([value for value in ran.result.result["got"] if value is not None]) == 3
    assert ran.result.status == "completed"
    assert len(ran.tool.calls) < 6


def test_ctx_written_by_iterations_can_end_the_loop() -> None:
    found = always(set_ctx={"found.{{ iter.x }}": "{{ outcome.result == 3 }}"})
    spec = {"mode": "parallel", "max_in_flight": 1, "complete_when": "{{ ctx.found['3'] }}"}
    ran = run({"in": [1, 2, 3, 4, 5], "iterator": "x", "spec": spec}, found, work=x_of)

    assert ran.result.ctx == {"found": {"1": False, "2": False, "3": True}}


def test_an_inner_loop_that_ends_early_ends_only_its_outer_iteration() -> None:
    inner = {"in": "{{ iter.o }}", "iterator": "x", "spec": {"complete_when": "{{ iter.result > 1 }}"}}
    ran = run({"in": [[1, 2, 3], [4, 5]], "iterator": "o", "loop": inner}, work=x_of)

    assert ran.result.result == {"got": [1, 2, None, 4, None]}


def test_an_outer_level_counts_its_own_iterations() -> None:
    spec = {"complete_when": "{{ iter.done == 1 and iter.result | sum == 3 }}"}
    ran = run(
        {"in": [[1, 2], [3]], "iterator": "o", "spec": spec, "loop": {"in": "{{ iter.o }}", "iterator": "x"}}, work=x_of
    )

    assert ran.result.result == {"got": [1, 2, None]}


@pytest.mark.req("TPL-09")
def test_a_condition_that_cannot_be_evaluated_fails_the_step() -> None:
    ran = run({"in": [1, 2], "iterator": "x", "spec": {"complete_when": "{{ 1 / 0 }}"}})

    assert ran.result.error is not None
    assert (ran.result.status, ran.result.error.kind) == ("failed", "template.error")
    assert "complete_when" in ran.result.error.message


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_iterations_can_add_elements(mode: str) -> None:
    """A tree walked breadth first: each node adds its children."""
    children = {1: [2, 3], 2: [4], 4: [5, 6]}
    grow = always(set_iter={"extend": "{{ outcome.result }}"})
    ran = run(
        {"in": [1], "iterator": "x", "spec": {"mode": mode, "extend": True}},
        grow,
        work=lambda inputs, context: children.get(inputs["args"]["x"], []),
    )

    assert sorted(call["args"]["x"] for call in ran.tool.inputs_of("work")) == [1, 2, 3, 4, 5, 6]
    [done] = ran.payloads("loop.done")
    assert (done.total, done.done, len(done.results)) == (6, 6, 6)


def test_without_extend_no_elements_are_added() -> None:
    ran = run({"in": [1], "iterator": "x"}, always(set_iter={"extend": [2, 3]}))

    assert len(ran.tool.calls) == 1
