"""Routing: which arcs fire, and what is recorded of it (ROUTE-02 to ROUTE-12)."""

from __future__ import annotations

import pytest

from noetl.events.payloads import EventSource
from tests.engine_script import Conversation


def routed(next_: str, *, step: str = "", executor: str = "") -> Conversation:
    """A step `start` with this router, and three targets to choose from."""
    targets = "".join(f"\n  - step: {name}\n    tool: {{kind: python, code: x}}" for name in "abc")
    return Conversation(
        f"""
{executor}
workflow:
  - step: start
    tool: {{kind: python, code: "result = 1"}}
    {step}
    next: {next_}{targets}
"""
    )


def guards(*values: bool) -> str:
    arcs = ", ".join(
        f'{{step: {name}, when: "{{{{ {str(v).lower()} }}}}"}}' for name, v in zip("abc", values, strict=True)
    )
    return f"[{arcs}]"


@pytest.mark.req("ROUTE-02", "ROUTE-03")
def test_exclusive_takes_the_first_matching_arc_and_decides_once() -> None:
    talk = routed(f"{{arcs: {guards(True, True, True)}}}")

    talk.start()
    talk.done("start")

    assert talk.ran() == ["start", "a"]
    selected = [event for event in talk.log if event.event_type == "next.selected"]
    assert len(selected) == 1
    assert selected[0].source is EventSource.SERVER


@pytest.mark.req("ROUTE-04")
def test_inclusive_takes_every_matching_arc_in_order() -> None:
    talk = routed(f"{{spec: {{mode: inclusive}}, arcs: {guards(True, False, True)}}}")

    talk.start()
    talk.done("start")

    assert talk.ran() == ["start", "a", "c"]


@pytest.mark.req("ROUTE-12")
def test_every_arc_is_recorded_with_the_value_of_its_guard() -> None:
    talk = routed(f"{{arcs: {guards(False, True, True)}}}")

    talk.start()
    talk.done("start")

    [selected] = talk.payloads("next.selected")
    assert [arc.guard for arc in selected.arcs] == [False, True, "not_evaluated"]
    assert [arc.fired for arc in selected.arcs] == [False, True, False]


@pytest.mark.req("ROUTE-05", "ROUTE-08")
@pytest.mark.parametrize(
    ("next_", "executor", "ran", "status"),
    [
        ("{arcs: [{step: a}]}", "", ["start"], "failed"),
        ("{spec: {unguarded: always}, arcs: [{step: a}]}", "", ["start", "a"], "running"),
        ("{arcs: [{step: a}]}", "executor: {spec: {unguarded: always}}", ["start", "a"], "running"),
        ("{arcs: [{step: a, when: \"{{ event.name == 'step.failed' }}\"}]}", "", ["start", "a"], "running"),
    ],
)
def test_a_failure_takes_only_an_arc_whose_guard_names_failures(
    next_: str, executor: str, ran: list[str], status: str
) -> None:
    talk = routed(next_, executor=executor)

    talk.start()
    talk.failed("start")

    assert talk.ran() == ran
    assert talk.status == status


@pytest.mark.req("ROUTE-08")
def test_a_failure_handled_by_an_arc_leaves_the_execution_completed() -> None:
    talk = routed("{arcs: [{step: a, when: \"{{ event.name == 'step.failed' }}\"}]}")

    talk.start()
    talk.failed("start")
    talk.done("a")

    assert talk.status == "completed"
    assert talk.execution.lifecycle.error is None


@pytest.mark.req("ROUTE-08")
def test_the_other_branch_ends_after_a_failure_and_the_first_error_is_reported() -> None:
    talk = routed("{spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}")

    talk.start()
    talk.done("start")
    talk.failed("a", "timeout", "too slow")
    assert talk.status == "running"
    talk.done("b")

    assert talk.status == "failed"
    [processed] = talk.payloads("playbook.processed")
    assert processed.error is not None
    assert processed.error.kind == "timeout"


@pytest.mark.req("ROUTE-08")
def test_an_unhandled_failure_of_a_best_effort_step_does_not_fail_the_execution() -> None:
    talk = routed("{arcs: [{step: a}]}", step="spec: {policy: {failure: {mode: best_effort}}}")

    talk.start()
    talk.failed("start")

    assert talk.ran() == ["start"]
    assert talk.status == "completed"


@pytest.mark.req("ROUTE-07")
def test_a_token_ends_if_no_arc_fires() -> None:
    talk = routed(f"{{arcs: {guards(False, False, False)}}}")

    talk.start()
    talk.done("start")

    assert talk.status == "completed"


@pytest.mark.req("ROUTE-06")
def test_args_are_rendered_when_the_arc_fires() -> None:
    talk = routed('{arcs: [{step: a, args: {n: "{{ ctx.n + 1 }}"}}]}')

    talk.start()
    talk.done("start", set_ctx={"n": 4})

    assert talk.run("a").token.args == {"n": 5}


@pytest.mark.req("ROUTE-09")
@pytest.mark.parametrize(
    ("guard", "fails"),
    [
        ("event.name == 'step.failed' and event.error.kind == 'timeout'", True),
        ("event.data.error.kind == 'timeout' and event.status == 'error'", True),
        ("event.name == 'step.done' and event.step == 'start'", False),
        ("event.data.result.n == 3 and event.result.n == 3", False),
        ("event.name == 'call.done'", False),
        ("event.name in ['call.done', 'x']", False),
        ("event.name == 'step.exit'", True),
        ("event.name == 'call.error'", True),
    ],
)
def test_guards_read_the_boundary_event(guard: str, fails: bool) -> None:
    """The last four are the aliases that playbooks in the wild use (design.md §5)."""
    talk = routed(f'{{arcs: [{{step: a, when: "{{{{ {guard} }}}}"}}]}}')

    talk.start()
    if fails:
        talk.failed("start", "timeout")
    else:
        talk.done("start", {"n": 3})

    assert talk.ran() == ["start", "a"]


@pytest.mark.req("ROUTE-10")
def test_a_cycle_runs_until_its_guard_is_false() -> None:
    talk = Conversation(
        """
workflow:
  - step: start
    next: {arcs: [{step: a, args: {n: 0}}]}
  - step: a
    tool: {kind: noop}
    next: {arcs: [{step: a, when: "{{ args.n < 3 }}", args: {n: "{{ args.n + 1 }}"}}]}
"""
    )

    talk.start()

    assert talk.ran() == ["start", "a", "a", "a", "a"]
    assert talk.status == "completed"


@pytest.mark.req("ROUTE-10")
def test_an_endless_cycle_fails_at_the_budget() -> None:
    talk = Conversation(
        """
executor: {spec: {entry_step: a, policy: {limits: {max_step_runs: 20}}}}
workflow:
  - step: a
    tool: {kind: noop}
    next: {arcs: [{step: a}]}
"""
    )

    talk.start()

    assert talk.ran() == ["a"] * 20
    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.kind == "execution.budget"


@pytest.mark.req("ROUTE-10")
def test_tokens_beyond_the_step_run_budget_are_not_created() -> None:
    """A hundred thousand of them, each to be dropped, kept a server from answering anybody."""
    talk = routed("{arcs: [{step: a, spec: {tokens: 100000}}]}")

    talk.start()
    talk.done("start")

    assert talk.types().count("token.created") == 1
    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.kind == "execution.budget"
    assert 'the arcs of step "start" make 100000 tokens' in talk.execution.lifecycle.error.message


@pytest.mark.req("TPL-09")
@pytest.mark.parametrize("arc", ['{step: a, when: "{{ 1 / 0 }}"}', '{step: a, args: {x: "{{ ctx.nope + 1 }}"}}'])
def test_a_template_error_in_an_arc_fails_the_execution_and_names_the_arc(arc: str) -> None:
    talk = routed(f"{{arcs: [{arc}]}}")

    talk.start()
    talk.done("start")

    assert talk.ran() == ["start"]
    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.kind == "template.error"
    assert 'the arc of step "start" to "a" could not be' in talk.execution.lifecycle.error.message


@pytest.mark.req("TPL-09", "ROUTE-08")
def test_a_routing_error_after_a_failed_step_reports_the_error_of_the_task_first() -> None:
    talk = routed('{arcs: [{step: a, when: "{{ false }}"}, {step: a, when: "{{ start | length > 0 }}"}]}')

    talk.start()
    talk.failed("start", "py.exception", "TypeError: string indices must be integers")

    error = talk.execution.lifecycle.error
    assert talk.status == "failed"
    assert error is not None
    assert error.kind == "py.exception"
    consequence = 'and so the arc of step "start" to "a" (2 of 2) could not be decided: null has no length'
    assert error.message == f"TypeError: string indices must be integers; {consequence}"


@pytest.mark.req("TPL-09", "ROUTE-08")
def test_an_event_rendering_error_after_a_failed_step_reports_the_task_error_first() -> None:
    emit = 'spec: {policy: {emit: {events: [{name: seen, data: {n: "{{ start | length }}"}}]}}}'
    talk = routed("{arcs: [{step: a}]}", step=emit)

    talk.start()
    talk.failed("start", "py.exception", "TypeError: string indices must be integers")

    error = talk.execution.lifecycle.error
    assert error is not None
    assert error.kind == "py.exception"
    assert error.message.startswith("TypeError: string indices must be integers; and so the end of step")


def test_set_ctx_of_a_step_is_applied_before_its_arcs_are_evaluated() -> None:
    """It may read the step's own result by its name (design.md §5)."""
    talk = routed(
        '{arcs: [{step: a, when: "{{ ctx.total == 6 }}"}]}',
        step='set_ctx: {total: "{{ start.data * 2 }}"}',
    )

    talk.start()
    talk.done("start", 3)

    assert talk.execution.variables.ctx == {"total": 6}
    assert talk.ran() == ["start", "a"]
    assert talk.types().index("ctx.patched") < talk.types().index("next.selected")


def test_step_args_are_defaults_for_token_args() -> None:
    talk = Conversation(
        """
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: a, args: {x: 1}}]}
  - step: a
    args: {x: 0, y: "{{ args.x + 1 }}"}
    tool: {kind: python, code: x}
"""
    )

    talk.start()

    assert talk.run("a").token.args == {"x": 1, "y": 2}


@pytest.mark.req("ROUTE-14")
def test_set_ctx_of_a_firing_arc_is_applied_before_its_token_is_created() -> None:
    talk = routed(
        "{arcs: [{step: a, when: '{{ false }}', set_ctx: {way: a}},"
        " {step: b, set_ctx: {way: b, n: '{{ event.result + 1 }}'}}, {step: c, set_ctx: {way: c}}]}"
    )

    talk.start()
    events = talk.done("start", 4)

    assert talk.execution.variables.ctx == {"way": "b", "n": 5}
    types = [event.event_type for event in events]
    assert types.index("next.selected") < types.index("ctx.patched") < types.index("token.created")


@pytest.mark.req("ROUTE-14")
def test_the_args_of_an_arc_read_what_the_arc_writes() -> None:
    talk = routed(
        "{spec: {mode: inclusive}, arcs: [{step: a, set_ctx: {id: '{{ event.result }}'}, args: {id: '{{ ctx.id }}'}},"
        " {step: b, args: {id: '{{ ctx.id | default(0) }}'}}]}"
    )

    talk.start()
    talk.done("start", 7)

    assert (talk.run("a").token.args, talk.run("b").token.args) == ({"id": 7}, {"id": 0})


@pytest.mark.req("ROUTE-14")
def test_the_later_of_two_firing_arcs_wins_a_ctx_key() -> None:
    talk = routed("{spec: {mode: inclusive}, arcs: [{step: a, set_ctx: {way: a}}, {step: b, set_ctx: {way: b}}]}")

    talk.start()
    talk.done("start")

    assert talk.execution.variables.ctx == {"way": "b"}


@pytest.mark.req("ROUTE-14")
def test_a_failing_set_ctx_of_an_arc_fails_like_its_guard() -> None:
    talk = routed("{arcs: [{step: a, set_ctx: {n: '{{ 1 / 0 }}'}}]}")

    talk.start()
    talk.done("start")

    assert talk.status == "failed"
