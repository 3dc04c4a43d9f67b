"""Task policies with each dialect's defaults, jumps, and the advice about them (POL, VAL-09, VAL-20, V2E-03…06)."""

from __future__ import annotations

import pytest

from noetl.net.task import Backoff, Directive, Mutations, Retry, Rule
from noetl.templates.values import Authored
from tests.language.compiling.outcomes import Compile

ERROR_FAILS = (Rule(when=Authored("{{ outcome.status == 'error' }}"), do=Directive.FAIL), Rule(do=Directive.CONTINUE))


def with_rules(rules: str, kind: str = 'python, code: "result = 1"', more: str = "") -> str:
    return f"- step: start\n  tool: [{{ name: t, kind: {kind}, spec: {{ policy: {{ {more}rules: [{rules}] }} }} }}]"


def evaluated(entries: str, loop: str = "") -> str:
    return f'- step: start\n  {loop}\n  tool: [{{ t: {{ kind: python, code: "result = 1", eval: [{entries}] }} }}]'


@pytest.mark.req("POL-01", "POL-05", "POL-07")
def test_rules_keep_their_order_and_all_fields(compiled: Compile) -> None:
    result = compiled(
        with_rules(
            "{ when: \"{{ outcome.status == 'error' }}\", then: { do: retry, attempts: 5, backoff: exponential, "
            'max_delay: 60, set_iter: { n: "{{ _attempt }}" } } }, '
            "{ else: { then: { do: jump, to: t, set_ctx: { done: true } } } }"
        )
    )

    assert result.policy("start", "t").rules == (
        Rule(
            when=Authored("{{ outcome.status == 'error' }}"),
            do=Directive.RETRY,
            retry=Retry(attempts=Authored(5), backoff=Backoff.EXPONENTIAL, delay=Authored(1), max_delay=Authored(60)),
            mutations=Mutations(set_iter=Authored({"n": "{{ _attempt }}"})),
        ),
        Rule(do=Directive.JUMP, to="t", mutations=Mutations(set_ctx=Authored({"done": True}))),
    )


@pytest.mark.req("POL-07")
def test_a_plain_retry_has_no_delay(compiled: Compile) -> None:
    rule = compiled(with_rules("{ else: { then: { do: retry, attempts: 5 } } }")).policy("start", "t").rules[0]

    assert rule.retry == Retry(attempts=Authored(5))


@pytest.mark.req("POL-03")
def test_a_v10_task_without_a_policy_has_none(compiled: Compile) -> None:
    assert compiled('- step: start\n  tool: { kind: python, code: "x" }').step("start").tasks[0].policy is None


@pytest.mark.req("POL-04")
def test_on_unmatched_is_kept(compiled: Compile) -> None:
    result = compiled(with_rules("{ when: false, then: { do: fail } }", more="on_unmatched: fail, "))

    assert result.loud == []
    assert result.policy("start", "t").on_unmatched is Directive.FAIL


@pytest.mark.req("POL-13")
def test_hooks_are_tasks_and_need_no_names(compiled: Compile) -> None:
    more = 'before: [{ kind: noop }], after: [{ name: log, kind: python, code: "x" }], '
    policy = compiled(with_rules("{ else: { then: { do: break } } }", more=more)).policy("start", "t")

    assert [task.name for task in policy.before] == ["t__before_0"]
    assert [(task.name, task.verbatim) for task in policy.after] == [("log", {"code": "x"})]


@pytest.mark.req("V2E-03", "V2E-04")
@pytest.mark.parametrize(
    ("entries", "rules"),
    [
        ("", 0),
        ('{ expr: "{{ false }}", do: retry, attempts: 2 }', 1),
    ],
)
def test_v2_eval_gets_an_explicit_rule_that_unmatched_errors_fail(compiled: Compile, entries: str, rules: int) -> None:
    text = evaluated(entries) if entries else '- step: start\n  tool: [{ t: { kind: python, code: "x" } }]'
    result = compiled(text, api="noetl.io/v2")

    assert result.loud == []
    assert result.policy("start", "t").rules[rules:] == ERROR_FAILS
    assert result.debug[f"steps/start/tasks/t/rules/{rules}"].construct == "default"


@pytest.mark.req("V2E-03")
def test_a_v2_eval_list_with_else_is_complete_and_fixed_backoff_is_none(compiled: Compile) -> None:
    entries = '{ expr: "{{ false }}", do: retry, attempts: 2, backoff: fixed, delay: 2 }, { else: { do: continue } }'
    rules = compiled(evaluated(entries), api="noetl.io/v2").policy("start", "t").rules

    assert [rule.when for rule in rules] == [Authored("{{ false }}"), None]
    assert rules[0].retry == Retry(attempts=Authored(2), backoff=Backoff.NONE, delay=Authored(2))


@pytest.mark.req("V2E-06")
def test_set_vars_in_a_parallel_loop_is_refused(compiled: Compile) -> None:
    def text(mode: str) -> str:
        return evaluated(
            "{ else: { do: continue, set_vars: { a: 1 } } }",
            f"loop: {{ in: [1], iterator: x, spec: {{ mode: {mode} }} }}",
        )

    found = compiled(text("parallel"), api="noetl.io/v2").only("E_PARALLEL_VARS")
    assert "set_iter" in found.hint
    assert "set_shared" in found.hint
    assert compiled(text("sequential"), api="noetl.io/v2").loud == ["W_ERROR_ACCEPTED"]


@pytest.mark.req("VAL-09")
def test_a_jump_to_an_unknown_task_lists_the_known_ones(compiled: Compile) -> None:
    found = compiled(with_rules("{ else: { then: { do: jump, to: missing } } }", "noop")).only("E_JUMP_TARGET")

    assert '"missing"' in found.message
    assert "its tasks are t" in found.hint
    assert found.path == "workflow[0].tool[0].spec.policy.rules[0].else.then.to"


@pytest.mark.req("VAL-09")
def test_a_jump_to_a_task_of_another_step_is_refused(compiled: Compile) -> None:
    other = "\n- step: b\n  tool: [{ name: u, kind: noop }]"

    assert compiled(with_rules("{ else: { then: { do: jump, to: u } } }", "noop") + other).only("E_JUMP_TARGET")


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    ("rules", "warned"),
    [
        ('{ when: "{{ false }}", then: { do: fail } }', True),
        ('{ when: "{{ outcome.http.status == 500 }}", then: { do: fail } }', True),
        ("{ when: \"{{ outcome.status == 'error' and outcome.http.status == 500 }}\", then: { do: fail } }", True),
        ("{ when: \"{{ outcome.status == 'success' }}\", then: { do: break } }", True),
        ("{ when: \"{{ outcome.status == 'error' }}\", then: { do: fail } }", False),
        ("{ when: \"{{ outcome.status != 'success' }}\", then: { do: fail } }", False),
        ('{ when: "{{ outcome.error }}", then: { do: fail } }', False),
        ("{ when: \"{{ ctx.x or outcome.status == 'error' }}\", then: { do: fail } }", False),
        ("{ else: { then: { do: continue } } }", False),
        (
            (
                "{ when: \"{{ outcome.status == 'error' and ctx.x }}\", then: { do: fail } }, "
                "{ when: \"{{ outcome.status == 'error' and not ctx.x }}\", then: { do: break } }"
            ),
            False,
        ),
    ],
)
def test_rules_that_accept_errors_get_a_warning(compiled: Compile, rules: str, warned: bool) -> None:
    assert ("W_ERROR_UNMATCHED" in compiled(with_rules(rules)).codes) is warned


def test_a_noop_gets_no_warning_about_errors(compiled: Compile) -> None:
    assert compiled(with_rules('{ when: "{{ ctx.x }}", then: { do: break } }', "noop")).loud == []


@pytest.mark.req("VAL-20", "ADM-04")
@pytest.mark.parametrize(
    ("rules", "warned"),
    [
        ('[{ when: "{{ ctx.x }}", then: { allow: true } }]', True),
        ('[{ when: "{{ ctx.x }}", then: { allow: true } }, { else: { then: { allow: false } } }]', False),
        ("[{ when: true, then: { allow: true } }]", False),
    ],
)
def test_admission_without_else_gets_a_warning(compiled: Compile, rules: str, warned: bool) -> None:
    result = compiled(f"- step: start\n  spec: {{ policy: {{ admit: {{ rules: {rules} }} }} }}")

    assert ("W_ADMIT_NO_ELSE" in result.codes) is warned
    assert len(result.admission("start").rules) == rules.count("then")
