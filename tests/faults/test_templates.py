"""A template that fails is never "no match": each place has its outcome, and the error names the place (TPL-09)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.playbook_runs import Ran, run_here

FAILING = "{{ 1 / workload.zero }}"
TASK: dict[str, Any] = {"name": "t", "kind": "python", "code": "x"}
ENDS = [{"step": "a", "tool": {"kind": "noop"}}, {"step": "b", "tool": {"kind": "noop", "args": {"reached": "b"}}}]


class Site(msgspec.Struct, frozen=True):
    """Where a template fails: the keys of the step around it, what the error names, the events that tell of it."""

    step: dict[str, Any]
    named: str
    told_by: tuple[str, ...] = ("step.failed",)


def ruled(*rules: dict[str, Any], **task: Any) -> dict[str, Any]:
    return {"tool": {**TASK, **task, "spec": {"policy": {"rules": list(rules)}}}}


def otherwise(**then: Any) -> dict[str, Any]:
    return ruled({"else": {"then": {"do": "continue", **then}}})


def arcs(*arcs: dict[str, Any]) -> dict[str, Any]:
    return {"tool": TASK, "next": {"arcs": list(arcs)}}


IN_A_TASK = ("task.processed", "step.failed")
ON_SUCCESS = "{{ outcome.status == 'success' }}"
SITES = {
    "input": Site({"tool": {**TASK, "args": {"deep": [{"x": FAILING}]}}}, 'inputs of task "t"', IN_A_TASK),
    "input of a noop": Site({"tool": {"name": "t", "kind": "noop", "args": {"x": FAILING}}}, 'task "t"', IN_A_TASK),
    "knob": Site({"tool": {**TASK, "spec": {"timeout": FAILING}}}, 'inputs of task "t"', IN_A_TASK),
    "rule": Site(
        ruled({"when": "{{ false }}", "then": {"do": "fail"}}, {"when": FAILING, "then": {"do": "continue"}}),
        'rule 1 of task "t"',
    ),
    "set_ctx": Site(otherwise(set_ctx={"x": FAILING}), 'rule 0 of task "t"'),
    "set_iter": Site(otherwise(set_iter={"x": FAILING}), 'rule 0 of task "t"'),
    "delay": Site(ruled({"when": ON_SUCCESS, "then": {"do": "retry", "attempts": 3, "delay": FAILING}}), "rule 0"),
    "attempts": Site(ruled({"when": ON_SUCCESS, "then": {"do": "retry", "attempts": FAILING}}), "rule 0"),
    "while": Site({"tool": [{"name": "w", "while": {"when": FAILING, "then": [TASK]}}]}, 'task "w'),
    "arc": Site(
        arcs({"step": "a", "when": FAILING}, {"step": "b"}),
        'the arc of step "start" to "a" could not be decided',
        ("next.selected",),
    ),
    "later arc": Site(
        arcs({"step": "a", "when": "{{ false }}"}, {"step": "b", "when": FAILING}),
        'the arc of step "start" to "b" could not be decided',
        ("next.selected",),
    ),
    "arc args": Site(
        arcs({"step": "a", "args": {"x": FAILING}}),
        'the arc of step "start" to "a" could not be followed',
        ("next.selected",),
    ),
    "admission": Site(
        {"spec": {"policy": {"admit": {"rules": [{"when": FAILING, "then": {"allow": True}}]}}}, "tool": TASK},
        'admission of step "start"',
        ("token.dropped",),
    ),
    "loop": Site({"loop": {"in": FAILING, "iterator": "n"}, "tool": TASK}, 'the loop of step "start"'),
    "loop knob": Site(
        {"loop": {"in": [1], "iterator": "n", "spec": {"mode": "parallel", "max_in_flight": FAILING}}, "tool": TASK},
        'the loop of step "start"',
    ),
    "inner loop": Site(
        {"loop": {"in": [1], "iterator": "n", "loop": {"in": FAILING, "iterator": "m"}}, "tool": TASK},
        'the loop of step "start"',
        ("loop.iteration.failed", "step.failed"),
    ),
    "iteration": Site(
        {"loop": {"in": [1, 2], "iterator": "n"}, "tool": {**TASK, "args": {"x": FAILING}}},
        'inputs of task "t"',
        ("task.processed", "loop.iteration.failed", "step.failed"),
    ),
}


def ran(step: dict[str, Any]) -> Ran:
    targets = {arc["step"] for arc in step.get("next", {}).get("arcs", ())}
    workflow = [{"step": "start", **step}, *(end for end in ENDS if end["step"] in targets)]
    return run_here(f"workload: {{zero: 0}}\nworkflow: {json.dumps(workflow)}")


@pytest.mark.req("TPL-09")
@pytest.mark.parametrize("site", SITES.values(), ids=list(SITES))
def test_a_failing_template_fails_the_run_and_the_error_names_the_place(site: Site) -> None:
    one = ran(site.step)

    assert one.result.status == "failed"
    assert one.result.error is not None
    assert one.result.error.kind == "template.error"
    assert site.named in one.result.error.message
    assert "division by zero" in one.result.error.message
    assert set(site.told_by) <= set(one.types())
    assert one.types()[-1] == "playbook.processed", "the run is over, and says so"
    assert "b" not in {event.step for event in one.events if event.event_type == "step.started"}, "it is no other match"


@pytest.mark.req("TPL-09")
def test_policies_and_arcs_handle_a_failing_input_template_like_any_error() -> None:
    kind = "{{ outcome.error.kind == 'template.error' }}"
    by_policy = ran(ruled({"when": kind, "then": {"do": "continue"}}, args={"x": FAILING}))
    by_arc = ran(
        {
            "tool": {**TASK, "args": {"x": FAILING}},
            "next": {"arcs": [{"step": "b", "when": "{{ event.error.kind == 'template.error' }}"}]},
        }
    )
    retried = ran(ruled({"when": kind, "then": {"do": "retry", "attempts": 3}}, args={"x": FAILING}))

    assert by_policy.result.ok
    assert not by_policy.tool.calls, "the tool was never run"
    assert by_arc.result.result == {"reached": "b"}
    assert retried.types().count("task.processed") == 3
    assert retried.result.error is not None
    assert retried.result.error.kind == "retry.exhausted"
