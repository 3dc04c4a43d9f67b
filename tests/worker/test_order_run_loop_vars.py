"""`vars` of v2-eval: of one step run, through its loop and its next; shared ones folded (V2E-05 to V2E-08)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.playbook_runs import Ran, run_here

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test, dialect: v2-eval}
"""


def run(*tasks: dict[str, Any], loop: dict[str, Any] | None = None, when: str = "{{ true }}", **answers: Any) -> Ran:
    workflow = [
        {
            "step": "start",
            **({"loop": loop} if loop else {}),
            "tool": [{f"t{number}": task} for number, task in enumerate(tasks)],
            "next": [{"step": "b", "when": when, "args": {"got": "{{ vars }}"}}],
        },
        {"step": "b", "tool": [{"say": {"kind": "noop", "args": {"got": "{{ args.got }}", "left": "{{ vars.ok }}"}}}]},
    ]
    return run_here(f"{HEAD}workflow: {json.dumps(workflow)}\n", **answers)


def task(*, args: dict[str, Any] | None = None, kind: str = "python", **writes: Any) -> dict[str, Any]:
    code = {"code": "x"} if kind == "python" else {}
    return {"kind": kind, **code, "args": args or {}, "eval": [{"else": {"do": "continue", **writes}}]}


@pytest.mark.req("V2E-05")
@pytest.mark.parametrize("kind", ["python", "noop"])
def test_vars_are_visible_to_later_tasks_and_next_only(kind: str) -> None:
    ran = run(
        task(kind=kind, set_vars={"ok": True}),
        task(kind=kind, args={"seen": "{{ vars.ok }}"}),
        when="{{ vars.ok }}",
    )

    assert ran.result.result == {"got": {"ok": True}, "left": None}
    processed = [one for one in ran.payloads("task.processed") if one.task == "t1"]
    assert processed[0].decision.set_vars == {}
    if kind == "python":
        assert ran.tool.inputs_of("t1")[0]["args"] == {"seen": True}


@pytest.mark.req("V2E-06")
def test_iterations_of_a_sequential_loop_pass_vars_on() -> None:
    count = task(args={"n": "{{ vars.n }}"}, set_vars={"n": "{{ (vars.n | default(0)) + iter.x }}"})
    ran = run(count, loop={"in": [1, 2, 3], "iterator": "x"}, when="{{ vars.n == 6 }}")

    assert ran.result.result["got"] == {"n": 6}
    assert [inputs["args"]["n"] for inputs in ran.tool.inputs_of("t0")] == [None, 1, 3]


@pytest.mark.req("V2E-07")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_shared_values_are_folded_into_vars_when_the_loop_ends(mode: str) -> None:
    share = task(set_shared={"n": {"op": "sum", "value": "{{ iter.x }}"}, "k": "{{ iter.x }}"})
    ran = run(share, loop={"in": [1, 2, 3], "iterator": "x", "spec": {"mode": mode}}, when="{{ vars.n == 6 }}")

    assert ran.result.result["got"] == {"n": 6, "k": 3}


def test_shared_values_that_do_not_fold_fail_the_arc_that_reads_them() -> None:
    ran = run(task(set_shared={"n": {"op": "sum", "value": "text"}}), when="{{ vars.n }}")

    assert ran.result.error is not None
    assert ran.result.error.kind == "loop.reduce"


@pytest.mark.req("V2E-08")
def test_the_next_task_reads_set_prev() -> None:
    ran = run(task(set_prev=7), task(args={"p": "{{ _prev }}"}), t0=1)

    assert ran.tool.inputs_of("t1")[0]["args"] == {"p": 7}
