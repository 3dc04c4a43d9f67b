"""Steps that never leave the server (SRV-05, EVT-04, TOOL-08)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl.events.events import TAXONOMY
from noetl.events.payloads import EventSource
from noetl.events.steps import CtxPatched
from tests.engine_script import Conversation
from tests.narrowing import payload


def noop(name: str, then: dict[str, Any] | None = None, **inputs: Any) -> dict[str, Any]:
    """A noop task; with `then`, one whose policy always says so."""
    policy = {"spec": {"policy": {"rules": [{"else": {"then": {"do": "continue", **then}}}]}}} if then else {}
    return {"name": name, "kind": "noop", **inputs, **policy}


def one_step(tools: str | list[dict[str, Any]], *, more: str = "", limits: str = "") -> Conversation:
    talk = Conversation(
        f"""
executor: {{spec: {{policy: {{limits: {{{limits}}}}}}}}}
workload: {{n: 1}}
workflow:
  - step: start
    tool: {tools if isinstance(tools, str) else json.dumps(tools)}
    {more}
"""
    )
    talk.start()
    return talk


@pytest.mark.req("SRV-05", "EVT-04")
def test_a_step_without_tools_is_executed_on_the_server_on_behalf_of_the_worker() -> None:
    talk = Conversation("workflow: [{step: start}]")

    talk.start()

    assert talk.status == "completed"
    assert talk.types(of="start") == [
        "token.created",
        "token.enqueued",
        "step.scheduled",
        "token.claimed",
        "step.started",
        "step.done",
        "next.selected",
        "token.consumed",
    ]
    [done] = [event for event in talk.log if event.event_type == "step.done"]
    assert (done.source, done.on_behalf) == (EventSource.SERVER, True)


@pytest.mark.req("EVT-04")
def test_only_worker_events_are_marked_on_behalf() -> None:
    talk = one_step("[{name: a, kind: noop}, {name: b, kind: noop}]")

    for event in talk.log:
        assert event.source is EventSource.SERVER
        assert event.on_behalf is (TAXONOMY[event.event_type].owner is EventSource.WORKER), event.event_type


@pytest.mark.req("PIPE-02", "TOOL-08")
def test_two_noops_complete_the_step_and_leave_prev_unset() -> None:
    talk = one_step("[{name: a, kind: noop, args: {x: '{{ workload.n }}'}}, {name: b, kind: noop}]")

    assert [p.task for p in talk.payloads("task.processed")] == ["a", "b"]
    assert talk.payloads("step.done")[0].result.result == {"x": 1}


def test_a_noop_that_reads_worker_data_gets_an_order() -> None:
    talk = one_step("{kind: noop, spec: {place: worker}}")

    assert talk.run("start").lease.order_id is not None
    assert talk.status == "running"


def test_a_noop_with_a_retry_policy_runs_on_a_worker() -> None:
    talk = one_step([noop("a", {"do": "retry", "attempts": 2})])

    assert talk.run("start").lease.order_id is not None


@pytest.mark.req("PIPE-03", "POL-10", "POL-12")
def test_jumps_and_iteration_state_work_on_the_server() -> None:
    talk = one_step(
        [
            noop("init", {"set_iter": {"a": 1, "b": 2}}),
            noop("swap", {"do": "jump", "to": "last", "set_iter": {"a": "{{ iter.b }}", "b": "{{ iter.a }}"}}),
            noop("skipped"),
            noop("last", args={"a": "{{ iter.a }}", "b": "{{ iter.b }}", "i": "{{ iter.index }}"}),
        ]
    )

    assert [p.task for p in talk.payloads("task.processed")] == ["init", "swap", "last"]
    assert talk.payloads("step.done")[0].result.result == {"a": 2, "b": 1, "i": 0}


@pytest.mark.req("PIPE-07")
def test_tasks_that_jump_to_each_other_fail_at_the_budget() -> None:
    tasks = [noop("a", {"do": "jump", "to": "b"}), noop("b", {"do": "jump", "to": "a"})]

    talk = one_step(tasks, limits="max_task_runs: 50")

    assert talk.types().count("task.processed") == 50
    assert talk.status == "failed"
    assert talk.payloads("step.failed")[0].error.kind == "pipeline.budget"


@pytest.mark.req("TPL-09")
def test_a_template_error_in_an_input_is_an_ordinary_error_outcome() -> None:
    talk = one_step("[{name: a, kind: noop, args: {x: '{{ ctx.nope + 1 }}'}}]")

    [processed] = talk.payloads("task.processed")
    assert processed.outcome.error.kind == "template.error"
    assert talk.status == "failed"


@pytest.mark.req("TPL-09")
def test_a_template_error_in_a_rule_fails_the_pipeline_and_names_the_rule() -> None:
    talk = one_step("{kind: noop, spec: {policy: {rules: [{when: '{{ 1/0 }}', then: {do: continue}}]}}}")

    error = talk.payloads("step.failed")[0].error
    assert error.kind == "template.error"
    assert "rule 0" in error.message


@pytest.mark.req("SCOPE-03", "SCOPE-04", "POL-11")
def test_ctx_changes_are_patches_of_the_written_keys_only() -> None:
    big = "x" * 50_000
    talk = one_step(
        [noop("a", {"set_ctx": {"a": {"c": 2}, "big": big}}), noop("b", {"set_ctx": {"a.b": 1, "n": None}})]
    )

    patches = talk.payloads("ctx.patched")
    assert patches[1].patch == {"a.b": 1, "n": None}
    assert talk.execution.variables.ctx == {"a": {"b": 1, "c": 2}, "n": None, "big": big}


@pytest.mark.req("SCOPE-07")
def test_a_patch_names_the_event_that_last_wrote_the_key() -> None:
    talk = one_step([noop("a", {"set_ctx": {"k": 1}}), noop("b", {"set_ctx": {"k": 2}})])

    first, second = [event for event in talk.log if event.event_type == "ctx.patched"]
    assert payload(second, CtxPatched).previous == {"k": first.event_id}
    assert talk.execution.variables.ctx == {"k": 2}


@pytest.mark.req("SCOPE-03", "ROUTE-06")
def test_values_taken_from_ctx_do_not_change_with_later_patches() -> None:
    """`ctx` itself, given away by a template, is not the mapping that later patches are written into."""
    steps = [
        {
            "step": "start",
            "tool": noop("first", {"set_ctx": {"n": 1}}),
            "next": {"arcs": [{"step": "then", "args": {"was": "{{ ctx }}"}}]},
        },
        {
            "step": "then",
            "tool": [
                noop("seen", args={"now": ["{{ ctx }}"]}),
                noop("next", {"set_ctx": {"n": 2, "own": "{{ ctx }}"}}),
            ],
            "next": {"arcs": [{"step": "end"}]},
        },
        {"step": "end", "tool": noop("told", args={"was": "{{ then.data }}"})},
    ]
    talk = Conversation(f"workflow: {json.dumps(steps)}")

    talk.start()

    assert talk.execution.variables.ctx == {"n": 2, "own": {"n": 1}}
    assert [created.args for created in talk.payloads("token.created")] == [{}, {"was": {"n": 1}}, {}]
    assert talk.payloads("step.done")[-1].result.result == {"was": {"now": [{"n": 1}]}}


@pytest.mark.req("SCOPE-03")
def test_a_step_can_store_all_of_ctx_in_ctx() -> None:
    talk = one_step("{kind: noop}", more='set_ctx: {a: 1, all: "{{ ctx }}"}')

    assert talk.status == "completed"
    assert talk.execution.variables.ctx == {"a": 1, "all": {}}
