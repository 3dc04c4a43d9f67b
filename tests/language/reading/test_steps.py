"""v10 steps: their keys, the keys of older dialects, and the data a step carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.language.reading.nodes import data
from tests.language.reading.documents import codes, only, places, read_step, read_text

FIXTURES = Path(__file__).parents[2] / "fixtures"
V10_FIXTURES = sorted(path.stem for pattern in ("F-004-*", "F-R-*") for path in FIXTURES.glob(f"{pattern}.yaml"))


@pytest.mark.req("DOC-10", "TASK-01", "ADM-01", "ROUTE-01", "SPEC-01", "SUGAR-01", "KEY-01", "VAL-19")
@pytest.mark.parametrize("name", [*V10_FIXTURES, "F-000-A"])
def test_every_v10_fixture_is_read_without_findings(name: str) -> None:
    _, found = read_text((FIXTURES / f"{name}.yaml").read_text())

    assert found == []


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize("api", ["v2", "v10"])
def test_a_misspelt_step_key_is_an_error_with_the_nearest_key(api: str) -> None:
    found = only(read_step("tols: {kind: noop}", api=api)[1])

    assert (found.code, found.path, found.hint) == ("E_STEP_KEY", "workflow[0].tols", 'did you mean "tool"?')


@pytest.mark.req("DOC-10")
def test_an_unknown_step_key_is_an_error_under_v10_and_a_warning_under_v2() -> None:
    assert codes(read_step("owner: x", api="v10")[1]) == ["E_STEP_KEY"]
    assert codes(read_step("owner: x", api="v2")[1]) == ["W_UNKNOWN_KEY"]


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("type: python", "tool: {kind: …}"),
        ("code: x = 1", "tool: {kind: …, code: …}"),
        ("save: {}", "a task of its own"),
    ],
)
def test_a_misplaced_key_gets_the_right_place_as_hint(key: str, hint: str) -> None:
    [found] = read_step(key, api="v2")[1]

    assert hint in found.hint
    assert codes(read_step("owner: x", api="v2", strict=True)[1]) == ["E_STEP_KEY"]


@pytest.mark.req("DOC-10")
def test_every_key_of_a_v10_step_is_accepted() -> None:
    step, found = read_step("""
        desc: all of them
        spec: {timeout: 20}
        args: {a: 1}
        tool: {kind: noop}
        set_ctx: {n: "{{ start.data }}"}
        result: {store: {kind: file}, output_select: [data.count]}
        timer: {duration: 1h}
        message: {name: m}
        signal: {name: s}
        human_task: {title: t, assignee: {role: r}}
        timeout: {duration: 2h}
        compensate: {tool: {kind: noop}}
        on_event: {handlers: [{event: e, then: [{kind: noop}]}]}
        next: {arcs: [{step: start}]}
    """)

    assert found == []
    assert (step.desc, data(step.args), data(step.set_ctx)) == ("all of them", {"a": 1}, {"n": "{{ start.data }}"})
    assert step.result is not None
    blocks = step.blocks
    assert all((blocks.timer, blocks.message, blocks.signal, blocks.human_task, blocks.timeout))
    assert all((blocks.compensate, blocks.on_event))


@pytest.mark.req("DOC-11")
def test_a_step_needs_neither_tool_nor_next() -> None:
    step, found = read_step("desc: a terminal place")

    assert (step.tasks, step.router, found) == ((), None, [])


@pytest.mark.req("VAL-14", "DIA-05", "MIG-04", "TASK-06", "V2E-10")
@pytest.mark.parametrize("api", ["v2", "v10"])
@pytest.mark.parametrize(
    ("body", "code", "path", "replacement"),
    [
        ('when: "{{ true }}"', "E_STEP_WHEN", "when", "step.spec.policy.admit.rules"),
        ("case: []", "E_CASE", "case", "next.arcs"),
        ("case: []", "E_CASE", "case", "task.spec.policy.rules"),
        ("retry: []", "E_RETRY_BLOCK", "retry", "do: retry"),
        ("sink: {}", "E_SINK", "sink", "storage is a tool task that returns a reference"),
        ("vars: {}", "E_VARS_BLOCK", "vars", "then.set_ctx"),
        ("pipe: []", "E_PIPE", "pipe", "tool list already is an ordered pipeline"),
        ("eval: []", "E_EVAL", "eval", "task.spec.policy.rules"),
        ("expr: x", "E_EXPR", "expr", "when"),
        ("next_policy: {}", "E_STEP_KEY", "next_policy", "next.spec.policy"),
        ("policy: {}", "E_STEP_KEY", "policy", "step.spec.policy"),
        ("spec: {next_mode: inclusive}", "E_NEXT_SHAPE", "spec.next_mode", "next.spec.mode"),
        ("spec: {case_mode: inclusive}", "E_CASE", "spec.case_mode", "next.spec.mode"),
        ("spec: {eval_mode: on_event}", "E_CASE", "spec.eval_mode", "wait blocks"),
        ("spec: {on_error: continue}", "E_SPEC_OPTION", "spec.on_error", "step.spec.policy.failure.mode"),
        ("spec: {admit: {}}", "E_SPEC_OPTION", "spec.admit", "step.spec.policy.admit"),
        ("spec: {lifecycle: {}}", "E_SPEC_OPTION", "spec.lifecycle", "step.spec.policy.lifecycle"),
        ("tool: {kind: noop, when: true}", "E_TASK_WHEN", "tool.when", "choose"),
        ("tool: {kind: noop, when: true}", "E_TASK_WHEN", "tool.when", "jump"),
        ("tool: {kind: noop, eval: []}", "E_EVAL", "tool.eval", "task.spec.policy.rules"),
        ("tool: {kind: noop, expr: x}", "E_EXPR", "tool.expr", "when"),
        ("tool: {kind: noop, pipe: []}", "E_PIPE", "tool.pipe", "ordered pipeline"),
        ("tool: {kind: noop, sink: {}}", "E_SINK", "tool.sink", "returns a reference"),
        ("tool: {kind: noop, retry: 3}", "E_RETRY_BLOCK", "tool.retry", "spec: {policy: {rules: [{when:"),
        ("tool: {kind: noop, case: []}", "E_CASE", "tool.case", "task.spec.policy.rules"),
        ("tool: {kind: noop, policy: {}}", "E_TASK_KEY", "tool.policy", "task.spec.policy"),
        ("tool: [{t: {kind: noop}}]", "E_TASK_LABEL", "tool[0].t", "- name: t, kind: noop"),
        ("next: [{step: start}]", "E_NEXT_SHAPE", "next", "arcs"),
        ("next: start", "E_NEXT_SHAPE", "next", "arcs"),
        ("loop: {collection: [1], element: x}", "E_LOOP_SHAPE", "loop.collection", "loop.in"),
        ("loop: {collection: [1], element: x}", "E_LOOP_SHAPE", "loop.element", "loop.iterator"),
        ("loop: {in: [1], iterator: x, mode: parallel}", "E_LOOP_SHAPE", "loop.mode", "loop.spec.mode"),
        (
            "loop: {in: [1], iterator: x, spec: {batch_size: 2}}",
            "E_LOOP_SHAPE",
            "loop.spec.batch_size",
            "loop.spec.max_in_flight",
        ),
    ],
)
def test_each_older_construct_is_refused_with_its_code_and_replacement(
    body: str, code: str, path: str, replacement: str, api: str
) -> None:
    """Whatever the apiVersion: a v10 document is never read as something older."""
    found = [diagnostic for diagnostic in read_step(body, api=api)[1] if diagnostic.path == f"workflow[0].{path}"]

    assert only(found).code == code
    assert replacement in only(found).hint


@pytest.mark.req("VAL-19")
def test_all_mistakes_of_a_step_are_reported_in_document_order() -> None:
    _, found = read_step("""
        when: true
        vars: {}
        tool:
          - {fetch: {kind: http, eval: []}}
          - {kind: noop, when: true}
        next: end
    """)

    assert places(found) == [
        ("E_STEP_WHEN", "workflow[0].when"),
        ("E_VARS_BLOCK", "workflow[0].vars"),
        ("E_TASK_LABEL", "workflow[0].tool[0].fetch"),
        ("E_EVAL", "workflow[0].tool[0].fetch.eval"),
        ("E_TASK_WHEN", "workflow[0].tool[1].when"),
        ("E_NEXT_SHAPE", "workflow[0].next"),
    ]
    assert all(diagnostic.hint for diagnostic in found)


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize(
    "body",
    [
        "args: [1]",
        "set_ctx: x",
        "desc: [x]",
        "spec: []",
        "result: file",
        "result: {stor: {}}",
        "result: {store: file}",
        "result: {output_select: count}",
        "spec: {result: {store: []}}",
    ],
)
def test_data_of_a_step_is_checked_for_its_type(body: str) -> None:
    assert codes(read_step(body)[1]) == ["E_STEP_KEY"]


def test_result_can_also_be_written_under_spec() -> None:
    step, found = read_step("spec: {result: {output_select: [data.n]}}")

    assert (data(step.result), found) == ({"output_select": ["data.n"]}, [])


@pytest.mark.req("VAL-11", "VAL-12")
@pytest.mark.parametrize(
    ("policy", "code", "path", "named"),
    [
        ("{rules: []}", "E_POLICY_SCOPE", "rules", "task.spec.policy.rules"),
        ("{do: fail}", "E_POLICY_SCOPE", "do", "task.spec.policy.rules"),
        ("{failure: {retry: 3}}", "E_POLICY_SCOPE", "failure.retry", "task.spec.policy.rules"),
        ("{emit: {events: [{name: a, fail: 1}]}}", "E_POLICY_SCOPE", "emit.events[0].fail", "task.spec.policy.rules"),
        ("{exec: local}", "E_POLICY_SCOPE", "exec", "loop.spec.policy"),
        ("{priority: 3}", "E_POLICY_SCOPE", "priority", "next.spec.policy"),
        ("{finally: []}", "E_POLICY_SCOPE", "finally", "task.spec.policy"),
        ("{limits: {}}", "E_POLICY_SCOPE", "limits", "executor.spec.policy"),
        ("{livecycle: {}}", "E_POLICY_SCOPE", "livecycle", "lifecycle"),
        ("text", "E_POLICY_SHAPE", "", "lifecycle"),
        ("{lifecycle: {timeout: 5}}", "E_POLICY_SHAPE", "lifecycle.timeout", "timeout_s"),
        ("{lifecycle: {timeout_s: soon}}", "E_DURATION", "lifecycle.timeout_s", "seconds"),
        ("{failure: {mode: slow}}", "E_POLICY_SHAPE", "failure.mode", "fail_fast"),
        ("{emit: {events: [{when: true}]}}", "E_POLICY_SHAPE", "emit.events[0]", "name"),
        ("{quotas: {max_runs: 0}}", "E_POLICY_SHAPE", "quotas.max_runs", ""),
        ('{quotas: {max_concurrent: "{{ workload.n }}"}}', "E_POLICY_SHAPE", "quotas.max_concurrent", ""),
        ("{tracing: {enabled: 1}}", "E_POLICY_SHAPE", "tracing.enabled", ""),
    ],
)
def test_step_policy_accepts_its_own_keys_and_no_control_flow(policy: str, code: str, path: str, named: str) -> None:
    found = only(
        [d for d in read_step(f"spec: {{policy: {policy}}}")[1] if not d.message.startswith('"fail" is not a key')]
    )

    assert (found.code, found.path) == (code, "workflow[0].spec.policy" + (f".{path}" if path else ""))
    assert named in found.hint


@pytest.mark.req("VAL-12", "EVT-09", "ADV-07")
def test_every_step_policy_key_is_accepted() -> None:
    step, found = read_step("""
        spec:
          policy:
            admit: {rules: [{else: {then: {allow: true}}}]}
            lifecycle: {timeout_s: 600, deadline_s: "{{ workload.deadline }}"}
            failure: {mode: best_effort}
            emit: {events: [audit.required, {name: done, when: "{{ true }}", data: {fail: 1}}]}
            tracing: {enabled: true, attributes: {retry: x}}
            quotas: {max_runs: 5, max_concurrent: 1}
            compensation: {}
    """)

    assert found == []
    assert step.admit is not None
