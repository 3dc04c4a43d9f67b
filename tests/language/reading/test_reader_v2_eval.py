"""The v2-eval reader: labels, eval, when, a list of nexts; and what is not part of the dialect."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.diagnostics import Diagnostic
from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import Dialect, PolicySyntax, StepSyntax, TaskSyntax
from tests.language.reading.documents import codes, only, places, read_rules, read_step, read_text

FIXTURES = Path(__file__).parents[2] / "fixtures"
EVAL_FIXTURES = ["F-000-B", "F-000-C", "F-000-D", "F-000-E", "F-003-A"]


def read(body: str) -> tuple[StepSyntax, list[Diagnostic]]:
    return read_step(body, Dialect.V2_EVAL, "v2")


def policy_of(step: StepSyntax) -> PolicySyntax:
    task = step.tasks[0]
    assert isinstance(task, TaskSyntax)
    assert task.policy
    return task.policy


@pytest.mark.req("V2E-01", "V2E-03", "V2E-09", "V2E-11")
@pytest.mark.parametrize("name", EVAL_FIXTURES)
def test_every_fixture_of_the_dialect_is_read_without_findings(name: str) -> None:
    _, found = read_text((FIXTURES / f"{name}.yaml").read_text(), Dialect.V2_EVAL)

    assert found == []


@pytest.mark.req("V2E-01")
def test_labels_name_the_tasks_of_a_pipeline() -> None:
    playbook, _ = read_text((FIXTURES / "F-000-E.yaml").read_text(), Dialect.V2_EVAL)

    tasks = playbook.steps[1].tasks
    assert [task.name for task in tasks] == ["init", "fetch_page", "save_page", "paginate"]
    assert isinstance(tasks[1], TaskSyntax)
    assert list(tasks[1].inputs) == ["method", "url", "params"]


@pytest.mark.req("V2E-01")
def test_a_single_mapping_is_a_list_of_one_task() -> None:
    step, found = read("tool: {kind: noop}")

    assert (found, step.single, len(step.tasks)) == ([], True, 1)


@pytest.mark.req("V2E-01")
@pytest.mark.parametrize(
    ("tool", "code", "hint"),
    [
        ("[{kind: noop}]", "E_TASK_LABEL", "label"),
        ("[{name: a, kind: noop}]", "E_TASK_LABEL", "label"),
        ("[{fetch: , kind: noop}]", "E_TASK_LABEL", "indent its keys under fetch:"),
        ("{fetch: {kind: noop}}", "E_TASK_LABEL", "- fetch: {kind: "),
        ("[{fetch: noop}]", "E_TOOL_KIND", "kind"),
        ("[{fetch: {url: u}}]", "E_TOOL_KIND", "kind"),
        ("[{choose: [{else: {then: []}}]}]", "E_TASK_KEY", "migrate"),
    ],
)
def test_a_task_is_nested_under_its_label(tool: str, code: str, hint: str) -> None:
    found = only(read(f"tool: {tool}")[1])

    assert found.code == code
    assert hint in found.hint


@pytest.mark.req("V2E-02")
def test_when_of_a_step_is_read_as_admission() -> None:
    step, found = read('when: "{{ workload.go }}"')

    assert found == []
    assert step.admit
    assert [(rule.when.value if rule.when else None, rule.allow) for rule in step.admit.rules] == [
        ("{{ workload.go }}", True),
        (None, False),
    ]
    assert read("desc: none")[0].admit is None


@pytest.mark.req("V2E-03", "V2E-04")
def test_eval_entries_become_strict_rules_in_the_same_order() -> None:
    step, found = read_rules(
        '[{expr: "{{ a }}", do: retry, attempts: 3, backoff: fixed, delay: 2}, {expr: true, do: fail}, '
        "{else: {do: jump, to: t, set_iter: {a: 1}}}]",
        Dialect.V2_EVAL,
    )

    policy = policy_of(step)
    assert found == []
    assert policy.strict is True
    assert [rule.then.do for rule in policy.rules] == ["retry", "fail", "jump"]
    assert policy.rules[0].then.backoff == "none"
    assert policy.rules[2].when is None


@pytest.mark.req("V2E-03", "VAL-07", "VAL-08", "VAL-09", "VAL-10")
@pytest.mark.parametrize(
    ("entries", "code", "hint"),
    [
        ("[{when: true, do: fail}]", "E_RULE_SHAPE", "write expr, or migrate"),
        ("[{do: fail}]", "E_RULE_SHAPE", "expr"),
        ("[{else: {then: {do: fail}}}]", "E_RULE_SHAPE", "{else: {do: …}}"),
        ("[{expr: true, then: {do: fail}}]", "E_RULE_SHAPE", "{expr: …, do: …}"),
        ("[{else: }]", "E_RULE_SHAPE", "else: {do: continue}"),
        ("[{else: {}, do: fail}]", "E_RULE_SHAPE", ""),
        ("[fail]", "E_RULE_SHAPE", "expr"),
        ("{expr: true, do: fail}", "E_POLICY_SHAPE", "eval: ["),
        ("[{else: {}}, {expr: true}]", "E_ELSE_ORDER", "end"),
        ("[{expr: true, do: stop}]", "E_DO", "retry"),
        ("[{expr: true, do: jump}]", "E_JUMP_TARGET", "to"),
        ("[{expr: true, do: retry}]", "E_RETRY_ARGS", "attempts"),
        ("[{expr: true, do: retry, attempts: 2, backoff: none}]", "E_BACKOFF", "write fixed"),
        ("[{expr: true, next: b}]", "E_RULE_SHAPE", "next[].when"),
        ("[{expr: outcome.ok, do: fail}]", "E_GUARD_LITERAL", "{{ outcome.ok }}"),
        ("[{expr: true, set_shared: {n: {op: avg, value: 1}}}]", "E_RULE_SHAPE", ""),
        ("[{expr: true, set_shared: {n: {op: sum}}}]", "E_RULE_SHAPE", "value"),
        ("[{expr: true, set_vars: 1}]", "E_RULE_SHAPE", "set_vars"),
    ],
)
def test_a_malformed_eval_entry_is_refused(entries: str, code: str, hint: str) -> None:
    found = only(read_rules(entries, Dialect.V2_EVAL)[1])

    assert found.code == code
    assert hint in found.hint


@pytest.mark.req("V2E-05", "V2E-07", "V2E-08")
def test_assignments_of_the_dialect_are_read() -> None:
    step, found = read_rules(
        "[{else: {set_iter: {a: 1}, set_ctx: {b: 2}, set_vars: {c: 3}, "
        "set_shared: {n: {op: sum, value: 1}, last: 5}, set_prev: 7}}]",
        Dialect.V2_EVAL,
    )

    then = policy_of(step).rules[0].then
    assert found == []
    assert (data(then.set_vars), data(then.set_prev)) == ({"c": 3}, 7)
    assert data(then.set_shared) == {"n": {"op": "sum", "value": 1}, "last": 5}


@pytest.mark.req("V2E-09")
@pytest.mark.parametrize(("spec", "mode"), [("{}", "exclusive"), ("{next_mode: inclusive}", "inclusive")])
def test_next_is_a_list_with_its_mode_on_the_step(spec: str, mode: str) -> None:
    step, found = read(
        f'spec: {spec}\nnext: [{{step: a, when: "{{{{ vars.ok }}}}", args: {{n: 1}}, spec: {{}}}}, {{step: b}}]'
    )

    assert found == []
    assert step.router
    assert (step.router.mode, [arc.target.value for arc in step.router.arcs]) == (mode, ["a", "b"])


@pytest.mark.req("V2E-09", "ROUTE-13")
@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        ("next: a", "E_NEXT_SHAPE", "next"),
        ("next: {arcs: []}", "E_NEXT_SHAPE", "next"),
        ("next: [a]", "E_NEXT_SHAPE", "next[0]"),
        ("next: [{when: true}]", "E_NEXT_SHAPE", "next[0]"),
        ('next: [{step: "{{ x }}"}]', "E_TARGET_TEMPLATE", "next[0].step"),
        ("spec: {next_mode: both}", "E_NEXT_SHAPE", "spec.next_mode"),
        ("next: [{step: a, spec: {mode: inclusive}}]", "E_SPEC_OPTION", "next[0].spec.mode"),
    ],
)
def test_a_malformed_next_is_refused(body: str, code: str, path: str) -> None:
    assert places(read(body)[1]) == [(code, f"workflow[0].{path}")]


@pytest.mark.req("V2E-10", "MIG-04", "TASK-06")
@pytest.mark.parametrize(
    ("body", "code", "path", "replacement"),
    [
        ("case: []", "E_CASE", "case", "next[].when"),
        ("case: []", "E_CASE", "case", "next.arcs"),
        ("sink: {}", "E_SINK", "sink", "returns a reference"),
        ("retry: []", "E_RETRY_BLOCK", "retry", "do: retry"),
        ("vars: {}", "E_VARS_BLOCK", "vars", "set_vars"),
        ("pipe: []", "E_PIPE", "pipe", "ordered pipeline"),
        ("next_policy: {}", "E_STEP_KEY", "next_policy", "step.spec.next_mode"),
        ("eval: []", "E_STEP_KEY", "eval", "task"),
        ("timer: {duration: 1h}", "E_STEP_KEY", "timer", "noetl migrate"),
        ("spec: {policy: {}}", "E_SPEC_OPTION", "spec.policy", "migrate"),
        ("tool: [{t: {kind: noop, when: true}}]", "E_TASK_WHEN", "tool[0].t.when", "jump"),
        ("tool: [{t: {kind: noop, pipe: []}}]", "E_PIPE", "tool[0].t.pipe", "ordered pipeline"),
        ("tool: [{t: {kind: noop, retry: 3}}]", "E_RETRY_BLOCK", "tool[0].t.retry", "do: retry"),
        ("tool: [{t: {kind: noop, sink: {}}}]", "E_SINK", "tool[0].t.sink", "returns a reference"),
        ("tool: [{t: {kind: noop, expr: x}}]", "E_TASK_KEY", "tool[0].t.expr", "eval"),
        ("tool: [{t: {kind: noop, spec: {policy: {}}}}]", "E_SPEC_OPTION", "tool[0].t.spec.policy", "eval"),
        ("loop: {in: [1], iterator: x, mode: parallel}", "E_LOOP_SHAPE", "loop.mode", "loop.spec.mode"),
        ("loop: {in: [1], iterator: x, spec: {policy: {}}}", "E_SPEC_OPTION", "loop.spec.policy", "migrate"),
    ],
)
def test_constructs_of_other_dialects_are_refused_with_their_replacement(
    body: str, code: str, path: str, replacement: str
) -> None:
    found = only(read(body)[1])

    assert (found.code, found.path) == (code, f"workflow[0].{path}")
    assert replacement in found.hint


@pytest.mark.req("V2E-01", "WRK-03")
def test_the_spec_of_a_step_accepts_timeout_and_lease() -> None:
    assert read("spec: {timeout: 300, lease: {mode: single_owner, ttl: 30, heartbeat: 5}}")[1] == []
    assert codes(read("spec: {timeout: soon}")[1]) == ["E_DURATION"]


@pytest.mark.req("V2E-01", "DOC-10")
def test_args_set_ctx_and_result_of_a_step_are_read_as_in_other_dialects() -> None:
    step, found = read("args: {a: 1}\nset_ctx: {b: 2}\nresult: {output_select: [n]}")

    assert found == []
    assert (data(step.args), data(step.set_ctx), data(step.result)) == ({"a": 1}, {"b": 2}, {"output_select": ["n"]})
