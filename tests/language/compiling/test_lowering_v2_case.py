"""The v2-case dialect in the net (V2C, C-05, C-40, C-42)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.net.net import Lifecycle
from noetl.net.task import Collect, Directive
from noetl.templates.values import Authored
from tests.language.compiling.outcomes import Compile, Outcome
from tests.narrowing import present

Fixture = Callable[[str], Outcome]

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def fixture(compiled_document: Compile) -> Fixture:
    """A compiled acceptance fixture by its name."""
    return lambda name: compiled_document((FIXTURES / f"{name}.yaml").read_text())


@pytest.mark.req("V2C-16", "V2C-17")
def test_retry_policies_apply_to_the_call(fixture: Fixture) -> None:
    first, second = fixture("F-001-B").task("start", "start_task").repeat

    assert (first.max_attempts, first.initial_delay, first.multiplier) == (Authored(5), Authored(1.0), Authored(2.0))
    assert second.next_call == Authored({"params": {"page": "{{ (response.data.page | int) + 1 }}"}})
    assert second.collect == Collect(path="data.items", into="pages", strategy="append")
    sink = present(second.sink)
    assert (sink.kind, sink.name) == ("postgres", "start_retry_1_sink")
    assert sink.inputs.data["args"] == {"page": "{{ page.data }}", "iter": "{{ _retry.index }}"}


@pytest.mark.req("V2C-18")
def test_retry_as_a_mapping_is_one_policy_on_errors(compiled: Compile) -> None:
    retry = "retry: { max_attempts: 3, delay: 10, spec: { mode: linear, on_exhausted: continue } }"
    result = compiled(f"- step: start\n  tool: {{ kind: noop }}\n  {retry}\n  next: end", api="noetl.io/v2")
    (repeat,) = result.task("start", "start_task").repeat

    assert (repeat.when, repeat.mode, repeat.initial_delay) == (None, "linear", Authored(10))
    assert repeat.on_exhausted is Directive.CONTINUE


@pytest.mark.req("V2C-09")
def test_a_then_mapping_runs_sink_set_and_next_in_that_order(fixture: Fixture) -> None:
    ok, error = present(fixture("F-001-C").step("start").case).rules
    sink, write, transition = ok.actions

    assert present(sink.task).kind == "postgres"
    assert write.set_ctx == Authored({"n": "{{ result.n }}"})
    assert [arc.target for arc in transition.transition] == ["success_handler"]
    assert [arc.target for arc in error.actions[0].transition] == ["error_handler"]


@pytest.mark.req("V2C-07", "V2C-10")
def test_an_inclusive_case_with_task_lists_is_compiled(fixture: Fixture) -> None:
    case = present(fixture("F-002-B").step("process_order").case)

    assert (case.inclusive, case.on_event) == (True, False)
    tasks = [present(rule.actions[0].task) for rule in case.rules[:3]]
    assert [task.name for task in tasks] == [
        "send_email",
        "write_audit",
        "fraud_check",
    ]
    assert case.rules[-1].when is None


@pytest.mark.req("V2C-13")
def test_an_on_event_case_compiles_to_a_listener(fixture: Fixture) -> None:
    case = present(fixture("F-002-C").step("wait_and_process").case)

    assert (case.inclusive, case.on_event) == (True, True)


@pytest.mark.req("V2C-12")
def test_the_three_forms_of_the_next_task_are_compiled(fixture: Fixture) -> None:
    net = fixture("F-002-H")
    fork = present(net.step("start").case).rules[0].actions[0]
    delayed = present(net.step("target_step").case).rules[0].actions[0]
    by_tool = present(net.step("parallel_step").case).rules[0].actions[0]

    assert [arc.target for arc in fork.transition] == ["target_step", "parallel_step"]
    assert (delayed.delay, delayed.transition[0].target) == (Authored("5s"), "end")
    assert by_tool.transition[0].target == "end"


@pytest.mark.req("V2C-04")
def test_several_targets_of_next_fork(compiled: Compile) -> None:
    result = compiled(
        "- step: start\n  tool: { kind: noop }\n  next: [{ step: a }, { step: b }]\n- { step: a, next: end }\n"
        "- { step: b, next: end }\n- { step: end, vars: { x: 1 } }",
        api="noetl.io/v2",
    )

    assert result.router("start").mode == "inclusive"


@pytest.mark.req("V2C-20", "V2C-21")
def test_sink_and_vars_of_a_step_are_compiled(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          tool: { kind: noop }
          sink: { tool: { kind: postgres, auth: pg, table: t }, args: { a: "{{ result.a }}" } }
          vars: { x: "{{ result.x }}" }
          next: end
        """,
        api="noetl.io/v2",
    )
    step = result.step("start")
    sink = present(step.sink)

    assert result.loud == []
    assert (sink.name, sink.inputs.data["args"]) == ("start_sink", {"a": "{{ result.a }}"})
    assert step.set_ctx == Authored({"x": "{{ result.x }}"})


@pytest.mark.req("V2C-15", "V2C-22")
def test_on_error_continue_compiles_to_best_effort(compiled: Compile) -> None:
    result = compiled(
        "- step: start\n  spec: { on_error: continue, timeout: 9 }\n  tool: { kind: noop }\n  next: end",
        api="noetl.io/v2",
    )

    assert (result.step("start").on_error_continue, result.step("start").best_effort) == (True, True)
    assert result.step("start").lifecycle == Lifecycle(timeout_s=Authored(9))


@pytest.mark.req("V2C-22")
def test_batch_size_compiles_to_max_in_flight(fixture: Fixture) -> None:
    loop = fixture("F-002-A").loop("process")

    assert (loop.iterator, loop.parallel, loop.max_in_flight) == ("item", True, Authored(10))


@pytest.mark.req("SAGA-01", "SAGA-02")
def test_compensation_and_its_trigger_are_compiled(fixture: Fixture) -> None:
    create = fixture("F-002-N").step("create_order")

    compensation = present(create.compensation)

    assert compensation.idempotent
    assert [task.name for task in compensation.tasks] == ["create_order_compensate"]
    assert present(create.case).rules[1].actions[0].trigger_compensation


@pytest.mark.req("TMR-02", "TMR-05", "MSG-01", "HUM-01", "ADV-01")
def test_wait_blocks_are_in_the_net(fixture: Fixture) -> None:
    assert present(fixture("F-002-J").step("wait").timer).duration == Authored("PT2H30M")
    assert present(fixture("F-002-J").step("wait").timer).id == Authored("wait")
    assert present(present(fixture("F-002-J").net).trigger).timezone == "America/New_York"
    assert present(fixture("F-002-K").step("long_task").timeout).alternative == "timeout_handler"
    assert present(fixture("F-002-L").step("wait_for_approval").message).name == Authored("approval_received")
    assert present(fixture("F-002-M").step("manager_approval").human_task).form[0].options == ("approve", "reject")
    assert present(fixture("F-002-O").step("main_processing").handlers).handlers[0].event == "audit.required"


@pytest.mark.req("V2C-25")
def test_the_human_task_fixture_leads_to_both_steps(fixture: Fixture) -> None:
    arc = present(fixture("F-002-M").step("manager_approval").case).rules[0].actions[0].transition[0]

    assert arc.candidates == ("process", "reject")
