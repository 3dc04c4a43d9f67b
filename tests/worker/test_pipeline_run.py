"""Pipelines as the worker runs them: order, jumps, ends, results (PIPE-01 to PIPE-09, OUT-01, TASK-05)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.engine.pipeline.preparation import Prepared, prepare
from noetl.events.outcomes import Meta, Outcome
from noetl.events.tasks import TaskProcessed
from noetl.tools.contract import ToolContext, ToolResult
from noetl.worker import pipeline_run
from tests.playbook_runs import Scripted, broken, run_here
from tests.worker.pipelines import always, pipeline, task


@pytest.mark.req("PIPE-02", "PIPE-09", "TASK-05")
def test_tasks_run_in_order_and_the_last_result_is_the_result_of_the_step() -> None:
    ran = pipeline(task("one"), task("two"), one=1, two=5)

    assert ran.trace()[:2] == [("one", "continue"), ("two", "continue")]
    assert ran.result.result == {"got": 5}


@pytest.mark.req("PIPE-09", "PIPE-06", "TOOL-08")
def test_a_noop_without_args_keeps_the_previous_result() -> None:
    ran = pipeline(task("one"), task("nothing", kind="noop"), one=5)

    assert ran.result.result == {"got": 5}


@pytest.mark.req("PIPE-09", "PIPE-06", "TOOL-08", "V2E-08", "MIG-02")
def test_a_noop_whose_args_render_to_null_has_a_null_result() -> None:
    """It has args. What older dialects set to null (`set_prev`, a call without result) is migrated to such a task."""
    ran = pipeline(task("one"), task("nothing", kind="noop", args="{{ workload.missing }}"), one=5)

    assert ran.result.result == {"got": None}


@pytest.mark.req("SUGAR-06")
@pytest.mark.parametrize("first", [[], ["one"]], ids=["in the server", "in a worker"])
def test_events_of_generated_tasks_name_their_construct(first: list[str]) -> None:
    until = {"name": "wait", "until": {"when": "{{ true }}", "then": [task("tick", kind="noop")]}}
    ran = pipeline(*map(task, first), until)

    path = f"workflow[0].tool[{len(first)}].until"
    for event_type in ("task.started", "task.processed"):
        told = {one.task: one.origin for one in ran.payloads(event_type)}
        assert {name: told[name] for name in ("tick", "wait__check", "wait__merge")} == {
            "tick": None,
            "wait__check": path,
            "wait__merge": path,
        }


class Stuck(Scripted):
    """Prints what it is given and never ends."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        assert context.live.write_output is not None
        context.live.write_output(b"epoch 1\nepoch 2\n")
        context.live.write_output(b"no memory left\nwaiting for ", "stderr")
        await asyncio.Event().wait()
        raise AssertionError("it is stopped before")


@pytest.mark.req("OUT-01", "OUT-05")
def test_the_log_contains_the_output_before_a_timeout() -> None:
    # Beside its rules, as in a playbook: rules and limits of a task share its `spec`.
    train = task("train", always("continue"))
    train["spec"]["timeout"] = 0.01
    ran = pipeline(train, tool=Stuck())
    outcome = ran.payloads("task.processed")[0].outcome

    assert outcome.error.message == "the task took longer than 0.01 s"
    assert outcome.meta.stdout == "epoch 1\nepoch 2\nno memory left\nwaiting for "


def test_an_error_keeps_the_output_of_its_program() -> None:
    ran = pipeline(task("one", always("continue")), one=broken(stdout="all of it"))

    assert ran.payloads("task.processed")[0].outcome.meta.stdout == "all of it"


@pytest.mark.req("PIPE-03")
def test_a_jump_goes_forward_without_falling_through() -> None:
    ran = pipeline(task("one", always("jump", to="three")), task("two"), task("three"))

    assert [name for name, _ in ran.tool.calls] == ["one", "three"]


@pytest.mark.req("PIPE-03", "POL-10")
def test_a_jump_back_repeats_until_the_state_says_enough() -> None:
    page = {
        "when": "{{ iter.page < 3 }}",
        "then": {"do": "jump", "to": "fetch", "set_iter": {"page": "{{ iter.page + 1 }}"}},
    }
    ran = pipeline(
        task("init", always("continue", set_iter={"page": 1}), kind="noop"),
        task("fetch", args={"page": "{{ iter.page }}"}),
        task("more", page, always("break"), kind="noop"),
        task("never"),
    )

    assert [inputs["args"] for inputs in ran.tool.inputs_of("fetch")] == [{"page": 1}, {"page": 2}, {"page": 3}]
    assert ran.tool.inputs_of("never") == []


@pytest.mark.req("PIPE-04")
def test_break_ends_the_pipeline_as_done() -> None:
    ran = pipeline(task("one", always("break")), task("two"), one=1)

    assert ran.tool.inputs_of("two") == []
    assert "step.failed" not in ran.types()
    assert ran.result.status == "completed"


@pytest.mark.req("PIPE-05")
def test_failing_a_success_by_rule_is_policy_fail() -> None:
    ran = pipeline(task("one", always("fail")), one=1)

    assert ran.payloads("step.failed")[0].error.kind == "policy.fail"
    assert ran.result.status == "failed"


@pytest.mark.req("PIPE-05")
@pytest.mark.parametrize(
    ("written", "kind", "message"),
    [
        ("nothing to do", "policy.fail", "nothing to do"),
        ({"kind": "orders.empty", "message": "none of {{ 1 + 2 }}"}, "orders.empty", "none of 3"),
        ("{{ iter.error }}", "py.exception", "no"),
        ("{{ iter.error.cause }}", "policy.fail", 'the policy of task "two" failed the pipeline'),
    ],
)
def test_fail_can_name_its_error(written: Any, kind: str, message: str) -> None:
    kept = always("continue", set_iter={"error": "{{ outcome.error }}"})
    ran = pipeline(
        task("one", kept), task("two", always("fail", error=written), kind="noop"), one=broken("py.exception", "no")
    )

    error = ran.payloads("step.failed")[0].error
    assert (error.kind, error.message) == (kind, message)


@pytest.mark.req("PIPE-05", "POL-03")
def test_an_error_without_a_policy_fails_the_step_with_that_error() -> None:
    ran = pipeline(task("one"), task("two"), one=broken("py.exception", "no"))

    assert ran.tool.inputs_of("two") == []
    assert ran.payloads("step.failed")[0].error.kind == "py.exception"


@pytest.mark.req("PIPE-06")
def test_prev_task_and_attempt_refer_to_the_last_run() -> None:
    said = {"prev": "{{ _prev.data }}", "task": "{{ _task }}", "attempt": "{{ _attempt }}"}
    retry = {"when": "{{ outcome.status == 'error' }}", "then": {"do": "retry", "attempts": 3}}
    ran = pipeline(
        task("one", args=said),
        task("middle", kind="noop"),
        task("two", retry, args=said),
        one={"n": 1},
        two=[broken(), broken(), 7],
    )

    assert ran.tool.inputs_of("one")[0]["args"] == {"prev": None, "task": "one", "attempt": 1}
    assert [inputs["args"] for inputs in ran.tool.inputs_of("two")] == [
        {"prev": {"n": 1}, "task": "two", "attempt": number} for number in (1, 2, 3)
    ]


@pytest.mark.req("PIPE-06", "POL-02")
def test_prev_is_null_after_a_task_that_continued_despite_its_error() -> None:
    never = {"when": "{{ false }}", "then": {"do": "fail"}}
    ran = pipeline(task("one"), task("two", never), task("three", args={"p": "{{ _prev }}"}), one=1, two=broken())

    assert ran.tool.inputs_of("three")[0]["args"] == {"p": None}
    assert ran.result.status == "completed"
    unmatched = ran.payloads("task.processed")[1]
    assert (unmatched.decision.rule, unmatched.decision.do) == ("unmatched", "continue")


@pytest.mark.req("PIPE-07")
def test_a_pipeline_past_its_budget_fails() -> None:
    ran = pipeline(task("a", always("jump", to="b")), task("b", always("jump", to="a")), limits={"max_task_runs": 50})

    assert len(ran.tool.calls) == 50
    assert ran.payloads("step.failed")[0].error.kind == "pipeline.budget"


def test_the_same_outcomes_give_the_same_directives() -> None:
    rules = [
        {"when": "{{ outcome.result > 2 }}", "then": {"do": "break"}},
        {"when": "{{ outcome.status == 'error' }}", "then": {"do": "retry", "attempts": 9}},
        always("jump", to="one"),
    ]
    runs = [pipeline(task("one", *rules), one=[1, broken(), 2, broken(), 3]).trace() for _ in range(2)]

    assert runs[0] == runs[1]
    assert [do for _, do in runs[0][:5]] == ["jump", "retry", "jump", "retry", "break"]


@pytest.mark.req("OUT-01")
def test_every_task_run_has_one_outcome_with_all_its_meta() -> None:
    ran = pipeline(task("one"), task("two"), one=1, two=broken())

    for processed in ran.payloads("task.processed"):
        assert isinstance(processed, TaskProcessed)
        outcome: Outcome = processed.outcome
        assert (outcome.error is None) is outcome.ok
        meta: Meta = outcome.meta
        assert {"attempt", "duration_ms", "started_at", "finished_at", "trace_id", "task_run_id"} <= set(
            meta.readable()
        )
        assert meta.task_run_id == processed.task_run_id


@pytest.mark.req("OUT-04")
def test_the_policy_sees_the_outcome_after_internal_retries_of_the_tool() -> None:
    rule = {"when": "{{ outcome.status == 'error' }}", "then": {"do": "retry", "attempts": 2}}
    one = task("one", rule, always("continue"))
    one["spec"]["retry"] = 3
    ran = pipeline(one, one=[broken(), broken(), 1])

    processed = ran.payloads("task.processed")[0]
    assert processed.outcome.ok
    assert processed.outcome.meta.internal_attempts == 3
    assert processed.decision.rule == 1


@pytest.mark.req("OUT-05")
def test_an_exception_of_a_tool_is_an_ordinary_error_outcome() -> None:
    ran = pipeline(task("one"), one=RuntimeError("oh"))

    error = ran.payloads("task.processed")[0].outcome.error
    assert (error.kind, error.message) == ("tool.exception", "RuntimeError: oh")


@pytest.mark.req("TPL-09", "OUT-02")
def test_an_input_that_cannot_be_rendered_never_reaches_the_tool() -> None:
    rule = {
        "when": "{{ outcome.error.kind == 'template.error' and outcome.py.exception is none }}",
        "then": {"do": "jump", "to": "two"},
    }
    ran = pipeline(task("one", rule, args={"x": "{{ ctx.nope + 1 }}"}), task("two"), two=2)

    assert [name for name, _ in ran.tool.calls] == ["two"]
    assert ran.result.result == {"got": 2}


@pytest.mark.req("SCOPE-10")
def test_task_results_end_with_their_step_and_step_results_stay() -> None:
    ran = run_here(
        """
workflow:
  - step: start
    tool: [{name: fetch, kind: python, code: x}]
    next: {arcs: [{step: b}]}
  - step: b
    tool: {kind: noop, args: {task: "{{ fetch.data }}", step: "{{ start.data }}"}}
""",
        fetch=3,
    )

    assert ran.result.result == {"task": None, "step": 3}


@pytest.mark.req("POL-11")
def test_set_ctx_of_one_step_is_read_by_the_next_task_and_step() -> None:
    ran = run_here(
        """
workflow:
  - step: start
    tool:
      - name: one
        kind: python
        code: x
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: "{{ outcome.result }}"}}}}]}}
      - {name: two, kind: python, code: x, args: {n: "{{ ctx.n }}"}}
    next: {arcs: [{step: b}]}
  - step: b
    tool: {kind: python, code: x, args: {n: "{{ ctx.n }}"}}
""",
        one=1,
    )

    assert ran.tool.inputs_of("two")[0]["args"] == {"n": 1}
    assert ran.tool.inputs_of("b_task")[0]["args"] == {"n": 1}
    assert ran.result.ctx == {"n": 1}
    assert [event.source for event in ran.events if event.event_type == "ctx.patched"] == ["server"]


@pytest.mark.req("TOOL-10")
@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        ("{n: 1, m: 2}", "{n: 4}", {"n": 4, "m": 2}),  # its own are defaults
        ('{n: "{{ args.n }}"}', "{n: 4}", {"n": 4}),
        ('{n: "{{ args.n * 2 }}"}', "{n: 4}", {"n": 8}),  # it says what becomes of what is given
        ("{n: 1}", "{n: null}", {"n": None}),
        ("{n: 1}", "{other: 4}", {"n": 1}),
    ],
)
def test_args_of_the_caller_override_those_of_a_workbook_task(own: str, given: str, expected: dict[str, Any]) -> None:
    ran = run_here(
        f"""
workbook: {{show: {{kind: noop, args: {own}}}}}
workflow:
  - step: start
    tool: [{{name: t, kind: workbook, task: show, args: {given}}}]
"""
    )

    assert ran.result.result == expected


@pytest.mark.req("TOOL-10")
def test_a_workbook_task_reads_the_arguments_of_its_reference() -> None:
    ran = run_here(
        """
workbook: {double: {kind: python, args: {n: "{{ args.n }}"}, code: "result = n * 2"}}
workflow:
  - step: start
    tool: [{name: t, kind: workbook, task: double, args: {n: 4}}]
""",
        t=lambda inputs, context: inputs["args"]["n"] * 2,
    )

    assert ran.result.result == 8


def test_the_idempotency_key_is_constant_over_attempts_and_differs_per_visit() -> None:
    keys: list[str] = []

    def one(inputs: Any, context: Any) -> ToolError:
        keys.append(context.task_run.idempotency_key)
        return broken()

    tool = Scripted(one=one)
    retry = {"when": "{{ _attempt < 2 }}", "then": {"do": "retry", "attempts": 2}}
    again = {"when": "{{ not iter.again }}", "then": {"do": "jump", "to": "one", "set_iter": {"again": True}}}

    pipeline(task("one", retry, again, always("break")), tool=tool)

    assert len(keys) == 4
    assert keys[0] == keys[1] != keys[2] == keys[3]


@pytest.mark.parametrize(
    ("template", "beside"),
    [("{%- for n in range(3) %}{{ n }}{% endfor %}", True), ("{% if true %}012{% endif %}", False)],
)
def test_templates_with_loops_are_evaluated_outside_the_event_loop(
    template: str, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops may compute for as long as their budget lets them; other orders of the worker go on meanwhile (P8)."""
    seen: list[bool] = []

    def noted(*args: Any, **more: Any) -> Prepared:
        seen.append(threading.current_thread() is not threading.main_thread())
        return prepare(*args, **more)

    monkeypatch.setattr(pipeline_run, "prepare", noted)

    ran = pipeline(task("one", args={"text": template}))

    assert seen == [beside]
    assert ran.tool.calls[0][1]["args"]["text"] == "012"
