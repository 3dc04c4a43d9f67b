"""v10 task policies: their shape, rules, directives and hooks; and step admission."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic
from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import Admit, PolicySyntax, TaskSyntax, Then
from tests.language.reading.documents import codes, only, read_rules, read_step


def read_policy(policy: str) -> tuple[PolicySyntax | None, list[Diagnostic]]:
    step, found = read_step(f"tool: {{kind: noop, spec: {{policy: {policy}}}}}")
    task = step.tasks[0]
    assert isinstance(task, TaskSyntax)
    return task.policy, found


def read_then(then: str) -> tuple[Then, list[Diagnostic]]:
    policy, found = read_policy(f"{{rules: [{{when: true, then: {then}}}]}}")
    assert policy is not None
    return policy.rules[0].then, found


@pytest.mark.req("VAL-06", "POL-01")
def test_a_policy_reads_its_rules_in_order() -> None:
    policy, found = read_policy(
        '{rules: [{when: "{{ a }}", then: {do: fail}}, {when: true, then: {}}, {else: {then: {do: break}}}]}'
    )

    assert found == []
    assert policy
    assert [rule.then.do for rule in policy.rules] == ["fail", "continue", "break"]
    assert [rule.when.value if rule.when else None for rule in policy.rules] == ["{{ a }}", True, None]
    assert policy.strict is False


@pytest.mark.req("VAL-06", "VAL-12", "POL-04")
@pytest.mark.parametrize(
    ("policy", "code", "said"),
    [
        ("[{when: true, then: {}}]", "E_POLICY_SHAPE", "a list"),
        ("retry", "E_POLICY_SHAPE", "text"),
        ("{mode: exclusive}", "E_POLICY_SHAPE", "rules is required"),
        ("{rules: {}}", "E_POLICY_SHAPE", "rules must be a list"),
        ("{rules: [], on_unmatched: stop}", "E_POLICY_SHAPE", "on_unmatched"),
        ("{rules: [], mode: some}", "E_POLICY_SHAPE", "mode"),
        ("{rules: [], rule: []}", "E_POLICY_SHAPE", '"rule"'),
        ("{rules: [], mode: inclusive}", "E_RESERVED_OPTION", "inclusive"),
        ("{rules: [], admit: {}}", "E_POLICY_SCOPE", '"admit"'),
        ("{rules: [], exec: local}", "E_POLICY_SCOPE", '"exec"'),
    ],
)
def test_a_malformed_policy_is_refused(policy: str, code: str, said: str) -> None:
    found = only(read_policy(policy)[1])

    assert found.code == code
    assert said in found.message
    assert found.hint


@pytest.mark.req("VAL-07")
@pytest.mark.parametrize(
    ("rules", "expected", "hint"),
    [
        ("[{else: {then: {}}}, {when: true, then: {}}]", ["E_ELSE_ORDER"], "end"),
        ("[{else: {then: {}}}, {else: {then: {}}}]", ["E_ELSE_ORDER"], "keep one"),
        ("[{when: true, else: {then: {}}}]", ["E_RULE_SHAPE"], "rule of its own"),
        ("[{then: {do: fail}}]", ["E_RULE_SHAPE"], "when"),
        ("[{when: true}]", ["E_RULE_SHAPE"], "then"),
        ("[{when: true, then: }]", ["E_RULE_SHAPE"], "then"),
        ("[{when: true, then: fail}]", ["E_RULE_SHAPE"], "then: {do: continue}"),
        ("[fail]", ["E_RULE_SHAPE"], "when"),
        ("[{when: true, do: fail}]", ["E_RULE_SHAPE"], "then: {do: …}"),
        ("[{when: true, thn: {}, then: {}}]", ["E_RULE_SHAPE"], 'did you mean "then"?'),
        ("[{else: fail}]", ["E_RULE_SHAPE"], "else: {then: …}"),
        ("[{else: {then: {}, do: fail}}]", ["E_RULE_SHAPE"], "then"),
        ("[{else: {do: fail}, then: {}}]", ["E_RULE_SHAPE"], "else: {then: …}"),
        ("[{expr: true, then: {}}]", ["E_EXPR"], "when"),
        ("[{when: true, then: {do: continue, set_itre: {}}}]", ["E_RULE_SHAPE"], 'did you mean "set_iter"?'),
        ("[{when: true, then: {set_iter: [a]}}]", ["E_RULE_SHAPE"], "set_iter"),
        ("[{when: outcome.ok, then: {}}]", ["E_GUARD_LITERAL"], "{{ outcome.ok }}"),
        ("[{when: 1, then: {}}]", ["E_GUARD_LITERAL"], "{{"),
    ],
)
def test_a_malformed_rule_is_refused(rules: str, expected: list[str], hint: str) -> None:
    _, found = read_rules(rules)

    assert codes(found) == expected
    assert hint in found[0].hint


@pytest.mark.req("VAL-07")
@pytest.mark.parametrize(
    "rule", ["{else: {then: {do: break}}}", "{else: {do: break}}", "{else: null, then: {do: break}}"]
)
def test_else_can_be_written_in_three_ways(rule: str) -> None:
    """004 lost its indentation, and playbooks in the wild leave out the inner then (C-35)."""
    policy, found = read_policy(f"{{rules: [{rule}]}}")

    assert found == []
    assert policy
    assert (policy.rules[0].when, policy.rules[0].then.do) == (None, "break")


@pytest.mark.req("WRK-05")
def test_a_rule_cannot_start_a_step() -> None:
    found = only(read_then("{do: continue, next: other}")[1])

    assert found.code == "E_RULE_SHAPE"
    assert "next.arcs" in found.hint


@pytest.mark.req("SCOPE-09", "MIG-04")
@pytest.mark.parametrize(
    ("write", "replacement"),
    [("set_vars", "set_iter"), ("set_shared", "loop.spec.policy.reducers"), ("set_prev", "set_iter")],
)
def test_assignments_of_older_dialects_are_refused_with_their_replacement(write: str, replacement: str) -> None:
    found = only(read_then(f"{{{write}: {{a: 1}}}}")[1])

    assert found.code == "E_SET_SCOPE"
    assert replacement in found.hint


@pytest.mark.req("VAL-08")
@pytest.mark.parametrize("do", ["goto", "Retry", "{retry: 3}", "true", "[fail]"])
def test_do_is_one_of_five_words(do: str) -> None:
    found = only(read_then(f"{{do: {do}, attempts: 3, to: x}}")[1])

    assert found.code == "E_DO"


@pytest.mark.req("VAL-08", "POL-10")
def test_do_can_be_omitted_and_means_continue() -> None:
    then, found = read_then("{set_iter: {a: 1}, set_ctx: {b: 2}}")

    assert (then.do, data(then.set_iter), data(then.set_ctx), found) == ("continue", {"a": 1}, {"b": 2}, [])


@pytest.mark.req("VAL-09")
@pytest.mark.parametrize("then", ["{do: jump}", "{do: jump, to: }", "{do: jump, to: [a]}", '{do: jump, to: "{{ a }}"}'])
def test_jump_needs_the_name_of_a_task(then: str) -> None:
    assert codes(read_then(then)[1]) == ["E_JUMP_TARGET"]


@pytest.mark.req("VAL-10", "POL-07", "POL-08")
@pytest.mark.parametrize(
    "then",
    [
        "{do: retry, attempts: 5}",
        '{do: retry, attempts: "{{ workload.n }}", delay: "{{ outcome.http.headers[0] }}"}',
        "{do: retry, attempts: 1, backoff: none, delay: 0}",
        "{do: retry, attempts: 3, backoff: linear, delay: 1.5, max_delay: 5m, jitter: true, on_exhausted: continue}",
        "{do: retry, attempts: 3, backoff: exponential, delay: PT2S, jitter: 0.5}",
    ],
)
def test_a_bounded_retry_is_accepted(then: str) -> None:
    assert read_then(then)[1] == []


@pytest.mark.req("VAL-10", "POL-06", "POL-07")
@pytest.mark.parametrize(
    ("then", "code", "hint"),
    [
        ("{do: retry}", "E_RETRY_ARGS", "attempts: 3"),
        ("{do: retry, attempts: 0}", "E_RETRY_ARGS", "every run"),
        ("{do: retry, attempts: 2.5}", "E_RETRY_ARGS", "every run"),
        ("{do: retry, attempts: true}", "E_RETRY_ARGS", "every run"),
        ("{do: retry, attempts: many}", "E_RETRY_ARGS", "every run"),
        ("{do: retry, attempts: 2, delay: -1}", "E_RETRY_ARGS", "seconds"),
        ("{do: retry, attempts: 2, delay: soon}", "E_RETRY_ARGS", "48h"),
        ("{do: retry, attempts: 2, max_delay: [1]}", "E_RETRY_ARGS", "48h"),
        ("{do: retry, attempts: 2, jitter: much}", "E_RETRY_ARGS", "seconds"),
        ("{do: retry, attempts: 2, on_exhausted: stop}", "E_RETRY_ARGS", "continue"),
        ("{do: retry, attempts: 2, backoff: fixed}", "E_BACKOFF", "none"),
        ("{do: retry, attempts: 2, backoff: exponentail}", "E_BACKOFF", 'did you mean "exponential"?'),
    ],
)
def test_a_retry_without_a_usable_bound_is_refused(then: str, code: str, hint: str) -> None:
    found = only(read_then(then)[1])

    assert found.code == code
    assert hint in found.hint


@pytest.mark.req("VAL-07")
@pytest.mark.parametrize(
    ("then", "owner"),
    [("{do: continue, to: x}", "jump"), ("{delay: 5}", "retry"), ("{do: jump, to: x, attempts: 3}", "retry")],
)
def test_a_bound_without_a_retry_is_reported(then: str, owner: str) -> None:
    found = only(read_then(then)[1])

    assert found.code == "E_RULE_SHAPE"
    assert f"do: {owner}" in found.hint


@pytest.mark.req("POL-13")
def test_hooks_are_lists_of_plain_tasks() -> None:
    policy, found = read_policy("{rules: [], before: [{kind: noop}], after: [], finally: [{name: f, kind: noop}]}")

    assert found == []
    assert policy
    assert (len(policy.before), policy.after, [task.name for task in policy.finally_]) == (1, (), ["f"])


@pytest.mark.req("POL-13")
@pytest.mark.parametrize(
    ("hook", "code"),
    [
        ("before: {kind: noop}", "E_POLICY_SHAPE"),
        ("after: [{kind: noop, spec: {policy: {rules: []}}}]", "E_POLICY_SCOPE"),
        ("finally: [{choose: [{else: {then: []}}]}]", "E_POLICY_SCOPE"),
        ("before: [{kind: noop, when: true}]", "E_TASK_WHEN"),
    ],
)
def test_hooks_accept_no_control_flow(hook: str, code: str) -> None:
    assert codes(read_policy(f"{{rules: [], {hook}}}")[1]) == [code]


def read_admit(admit: str) -> tuple[Admit | None, list[Diagnostic]]:
    step, found = read_step(f"spec: {{policy: {{admit: {admit}}}}}")
    return step.admit, found


@pytest.mark.req("ADM-01", "ADM-07")
def test_admission_reads_rules_parking_and_token_metadata() -> None:
    admit, found = read_admit(
        '{mode: inclusive, rules: [{when: "{{ a }}", then: {allow: true, set_token: {x: 1}}}, '
        "{when: true, then: {park: true}}, {else: {allow: false}}]}"
    )

    assert found == []
    assert admit is not None
    assert admit.mode == "inclusive"
    assert [(rule.allow, rule.park) for rule in admit.rules] == [(True, False), (False, True), (False, False)]
    assert data(admit.rules[0].set_token) == {"x": 1}


@pytest.mark.req("ADM-01", "VAL-11")
@pytest.mark.parametrize(
    ("admit", "code", "said"),
    [
        ("{rules: [{when: true, then: {}}]}", "E_RULE_SHAPE", "allow is required"),
        ("{rules: [{when: true, then: {set_token: {}}}]}", "E_RULE_SHAPE", "allow is required"),
        ("{rules: [{when: true, then: {do: fail}}]}", "E_POLICY_SCOPE", '"do"'),
        ("{rules: [{when: true, then: {allow: maybe}}]}", "E_RULE_SHAPE", "true or false"),
        ("{rules: [{when: true, then: {allow: true, park: true}}]}", "E_RULE_SHAPE", "parked or allowed"),
        ("{rules: [{when: true, then: {alow: true}}]}", "E_RULE_SHAPE", '"alow"'),
        ("{rules: [{when: true, then: true}]}", "E_RULE_SHAPE", "a mapping"),
        ("{rules: [{when: true, allow: true}]}", "E_RULE_SHAPE", '"allow"'),
        ("{rules: []}", "E_POLICY_SHAPE", "empty"),
        ("{mode: exclusive}", "E_POLICY_SHAPE", "rules is required"),
        ("{rules: {}}", "E_POLICY_SHAPE", "a list"),
        ("[]", "E_POLICY_SHAPE", "a mapping"),
        ("{mode: first, rules: [{else: {then: {allow: true}}}]}", "E_POLICY_SHAPE", "admit.mode"),
        ("{rules: [{else: {then: {allow: true}}}], else: 1}", "E_POLICY_SHAPE", '"else"'),
    ],
)
def test_admission_can_only_allow_deny_or_park(admit: str, code: str, said: str) -> None:
    found = [d for d in read_admit(admit)[1] if said in d.message]

    assert only(found).code == code
