"""Rules, arcs and cases that let errors pass although their author says nothing about errors."""

from __future__ import annotations

import pytest

from tests.language.compiling.outcomes import Compile

pytestmark = pytest.mark.req("VAL-20", "POL-01")

ELSE = "{ else: { then: { do: continue } } }"
FAIL = "{ when: \"{{ outcome.status == 'error' }}\", then: { do: fail } }"


def with_rules(rules: str, kind: str = 'python, code: "result = 1"') -> str:
    return f"- step: start\n  tool:\n    - {{ name: t, kind: {kind}, spec: {{ policy: {{ rules: [{rules}] }} }} }}\n"


@pytest.mark.parametrize(
    "rules",
    [
        ELSE,
        '{ when: "{{ true }}", then: { do: continue } }',
        "{ else: { then: { do: break } } }",
        '{ when: "{{ outcome.http.status == 503 }}", then: { do: retry, attempts: 2 } }, ' + ELSE,
        '{ when: "{{ outcome.result.off }}", then: { do: continue } }, ' + ELSE,
        "{ when: \"{{ outcome.result.state != 'done' }}\", then: { do: break } }",
        '{ when: "{{ ctx.n > 1 }}", then: { do: continue } }, ' + FAIL,
        '{ else: { then: { do: continue, set_ctx: { n: "{{ outcome.result }}" } } } }',
    ],
)
def test_a_rule_that_accepts_errors_without_naming_them_is_reported_once(compiled: Compile, rules: str) -> None:
    assert compiled(with_rules(rules)).loud.count("W_ERROR_ACCEPTED") == 1


@pytest.mark.parametrize(
    "rules",
    [
        f"{FAIL}, {ELSE}",
        "{ when: \"{{ outcome.status == 'error' }}\", then: { do: continue } }, " + ELSE,
        "{ when: \"{{ outcome.status == 'success' and outcome.result.ok }}\", then: { do: break } }, " + ELSE,
        '{ when: "{{ outcome.error }}", then: { do: retry, attempts: 2 } }, ' + ELSE,
        '{ else: { then: { do: continue, set_iter: { status: "{{ outcome.http.status }}" } } } }',
        '{ else: { then: { do: continue, set_ctx: { why: "{{ outcome.error.message }}" } } } }',
        '{ when: "{{ outcome.result.off }}", then: { do: continue } }, ' + FAIL,
        "{ else: { then: { do: fail } } }",
    ],
)
def test_a_rule_that_names_errors_gets_no_warning(compiled: Compile, rules: str) -> None:
    assert "W_ERROR_ACCEPTED" not in compiled(with_rules(rules)).codes


def test_a_noop_with_an_else_rule_gets_no_warning(compiled: Compile) -> None:
    assert compiled(with_rules(ELSE, "noop")).loud == []


def test_a_status_that_is_read_later_gets_no_warning(compiled: Compile) -> None:
    later = "    - { name: u, kind: python, args: { s: \"{{ t.status }}\" }, code: 'result = s' }\n"

    assert "W_ERROR_ACCEPTED" not in compiled(with_rules(ELSE) + later).codes


def test_the_hint_uses_the_words_of_the_dialect(compiled: Compile) -> None:
    task = '{ kind: python, code: "result = 1", eval: [{ else: { do: continue } }] }'
    found = compiled(f"- step: start\n  tool: [{{ t: {task} }}]\n", api="noetl.io/v2")

    assert "{expr: \"{{ outcome.status == 'error' }}\", do: fail}" in found.only("W_ERROR_ACCEPTED").hint


def stepped(guard: str, other: str = "", spec: str = "", tool: str = '{ kind: python, code: "result = 1" }') -> str:
    return (
        f"- step: start\n  tool: {tool}\n  set_ctx: {{ mine: 1 }}\n  next:\n    spec: {{ {spec} }}\n    arcs:\n{other}"
        f'      - {{ step: b, when: "{{{{ {guard} }}}}" }}\n- step: b\n'
    )


@pytest.mark.parametrize("guard", ["workload.full", "not workload.dry_run", "ctx.before > 1", "true"])
def test_an_arc_whose_guard_ignores_the_outcome_gets_a_warning(compiled: Compile, guard: str) -> None:
    workload = "workload: { full: true, dry_run: false }\nctx: { before: 1 }\n"

    assert compiled(stepped(guard), root=workload).loud.count("W_ERROR_ACCEPTED") == 1


@pytest.mark.parametrize(
    "guard",
    [
        "event.name == 'step.done' and workload.full",
        "event.name == 'step.failed'",
        "start.ok",
        "ctx.mine == 1",
        "not workload.full and event.status == 'success'",
    ],
)
def test_an_arc_that_reads_the_outcome_or_the_writes_of_its_step_gets_no_warning(compiled: Compile, guard: str) -> None:
    assert "W_ERROR_ACCEPTED" not in compiled(stepped(guard), root="workload: { full: true }\n").codes


def test_an_arc_after_one_for_failures_gets_no_warning_unless_both_can_fire(compiled: Compile) -> None:
    failed = "      - { step: b, when: \"{{ event.name == 'step.failed' }}\" }\n"

    assert "W_ERROR_ACCEPTED" not in compiled(stepped("workload.full", failed), root="workload: { full: 1 }\n").codes
    both = compiled(stepped("workload.full", failed, "mode: inclusive"), root="workload: { full: 1 }\n")
    assert both.codes.count("W_ERROR_ACCEPTED") == 1


def test_a_step_that_cannot_fail_gets_no_warning(compiled: Compile) -> None:
    found = compiled(stepped("workload.full", tool="{ kind: noop }"), root="workload: { full: 1 }\n")

    assert "W_ERROR_ACCEPTED" not in found.codes


@pytest.mark.req("V2C-06", "V2C-15")
@pytest.mark.parametrize(
    ("rules", "warned"),
    [
        ("[{ when: \"{{ event.name == 'step.exit' }}\", then: { next: [{ step: b }] } }]", True),
        ('[{ when: "{{ workload.full }}", then: { next: [{ step: b }] } }]', True),
        ("[{ when: \"{{ event.name == 'call.done' }}\", then: { next: [{ step: b }] } }]", False),
        ("[{ when: \"{{ event.name == 'step.exit' }}\", then: { set: { a: 1 } } }]", False),
        ("[{ when: \"{{ event.name == 'step.exit' and result.ok }}\", then: { next: [{ step: b }] } }]", False),
        ("[{ when: \"{{ event.name == 'step.exit' and start.ok }}\", then: { next: [{ step: b }] } }]", False),
        (
            (
                "[{ when: \"{{ event.name == 'call.error' }}\", then: { next: [{ step: b }] } }, "
                "{ when: \"{{ event.name == 'step.exit' }}\", then: { next: [{ step: b }] } }]"
            ),
            False,
        ),
        (
            (
                "[{ when: \"{{ event.name == 'call.done' and result.ok }}\", then: { set: { a: 1 } } }, "
                "{ else: [{ next: { next: [{ step: b }] } }] }]"
            ),
            False,
        ),
    ],
)
def test_a_case_rule_that_continues_after_a_failed_call_gets_a_warning(
    compiled: Compile, rules: str, warned: bool
) -> None:
    steps = f'- step: start\n  tool: {{ kind: python, code: "result = 1" }}\n  case: {rules}\n- step: b\n  next: c\n'
    found = compiled(f"{steps}- step: c\n  next: []\n", root="workload: { full: true }\n", api="noetl.io/v2")

    assert ("W_ERROR_ACCEPTED" in found.codes) is warned
