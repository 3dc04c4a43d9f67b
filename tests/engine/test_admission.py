"""Admission: who may run a step (ADM-02 to ADM-07)."""

from __future__ import annotations

import pytest

from tests.engine_script import Conversation


def guarded(admit: str, *, args: str = "{n: 2}") -> Conversation:
    talk = Conversation(
        f"""
workload: {{go: true}}
workflow:
  - step: start
    tool: {{kind: python, code: "result = 1"}}
    next: {{arcs: [{{step: gate, args: {args}}}]}}
  - step: gate
    spec: {{policy: {{admit: {admit}}}}}
    tool: {{kind: python, code: "result = 1"}}
    next: {{arcs: [{{step: after}}]}}
  - step: after
    tool: {{kind: noop}}
"""
    )
    talk.start()
    talk.done("start", 7)
    return talk


@pytest.mark.req("ADM-02", "ADM-05")
def test_a_denied_token_is_dropped_and_the_execution_completes() -> None:
    talk = guarded("{rules: [{else: {then: {allow: false}}}]}")

    assert talk.ran() == ["start"]
    assert talk.types()[-4:] == ["step.denied", "token.dropped", "workflow.finished", "playbook.processed"]
    assert talk.status == "completed"


@pytest.mark.req("ADM-02")
def test_a_step_without_admission_runs() -> None:
    talk = Conversation("workflow: [{step: start, tool: {kind: python, code: x}}]")

    talk.start()

    assert talk.ran() == ["start"]


@pytest.mark.req("ADM-03")
@pytest.mark.parametrize(
    ("rules", "admitted"),
    [
        ('[{when: "{{ true }}", then: {allow: false}}, {when: "{{ true }}", then: {allow: true}}]', False),
        ('[{when: "{{ false }}", then: {allow: false}}, {when: "{{ true }}", then: {allow: true}}]', True),
        ('[{when: "{{ false }}", then: {allow: false}}, {else: {then: {allow: true}}}]', True),
        ('[{when: "{{ true }}", then: {allow: true}}, {else: {then: {allow: false}}}]', True),
    ],
)
def test_the_first_matching_rule_decides(rules: str, admitted: bool) -> None:
    assert ("gate" in guarded(f"{{rules: {rules}}}").ran()) is admitted


@pytest.mark.req("ADM-04")
def test_admission_denies_if_no_rule_matches() -> None:
    talk = guarded('{rules: [{when: "{{ ctx.ready }}", then: {allow: true}}]}')

    assert talk.payloads("step.denied")[0].rule is None
    assert talk.ran() == ["start"]


@pytest.mark.req("ADM-06", "TPL-05")
@pytest.mark.parametrize(
    "guard",
    [
        "event.name == 'step.done' and args.n > 1",
        "workload.go",
        "event.step == 'start' and event.result == 7",
        "start.data == 7",
        "execution_id == 'x1'",
    ],
)
def test_guards_read_args_workload_event_results_and_the_execution(guard: str) -> None:
    talk = guarded(f'{{rules: [{{when: "{{{{ {guard} }}}}", then: {{allow: true}}}}]}}')

    assert "gate" in talk.ran()


@pytest.mark.req("ADM-07")
def test_all_inclusive_rules_are_evaluated_and_their_token_data_merged() -> None:
    both = (
        '{when: "{{ true }}", then: {allow: true, set_token: {a: 1}}}, '
        '{when: "{{ true }}", then: {allow: true, set_token: {b: 2}}}'
    )

    allowed = guarded(f"{{mode: inclusive, rules: [{both}]}}")
    denied = guarded(f'{{mode: inclusive, rules: [{both}, {{when: "{{{{ true }}}}", then: {{allow: false}}}}]}}')

    assert allowed.run("gate").token.meta == {"a": 1, "b": 2}
    assert denied.ran() == ["start"]


@pytest.mark.req("TPL-09")
def test_a_template_error_in_admission_fails_the_token() -> None:
    talk = guarded('{rules: [{when: "{{ 1 / 0 }}", then: {allow: true}}]}')

    assert talk.ran() == ["start"]
    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.kind == "template.error"
    assert '"gate"' in talk.execution.lifecycle.error.message
