"""Wait blocks and listening rules of v2-case: their rules see what came (TMR-02, MSG-06, V2C-13, ADV-02)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.events.orders import ReportResult
from tests.case_worker_script import case_entries
from tests.engine.waiting import Waiting
from tests.fixtures.running import fixture

CASE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: case, path: tests/case, dialect: v2-case}
workflow:
"""


def waiting(name: str, step: str, **payload: Any) -> Waiting:
    talk = Waiting(fixture(name))
    talk.start(**payload)
    talk.work(step)
    return talk


@pytest.mark.req("TMR-02", "F-002-J")
def test_a_timer_of_a_case_step_fires_its_rule_without_holding_a_worker() -> None:
    talk = waiting("F-002-J", "wait")
    assert talk.run("wait").lease.order_id is None

    assert talk.sleep() == 9_000

    assert talk.ran() == ["start", "wait", "continue", "end"]
    assert talk.status == "completed"


@pytest.mark.req("TMR-04")
def test_a_wait_that_no_rule_handles_leads_to_step_exit_and_next() -> None:
    talk = Waiting(
        CASE
        + """
  - step: start
    timer: {duration: 1h, spec: {cancellable: true}}
    case:
      - {when: "{{ event.name == 'timer.fired' }}", then: {next: fired}}
      - {when: "{{ event.name == 'step.exit' }}", then: {set: {left: true}}}
    next: left
  - {step: fired, tool: {kind: noop}}
  - {step: left, tool: {kind: noop}}
"""
    )
    talk.start()
    talk.work("start")

    talk.cancel_timer("start")

    assert talk.ran()[-1] == "left"
    assert talk.execution.variables.ctx == {"left": True}


@pytest.mark.req("MSG-01", "MSG-04", "F-002-L")
@pytest.mark.parametrize("came", [True, False])
def test_a_message_or_its_timeout_reaches_the_rules(came: bool) -> None:
    talk = waiting("F-002-L", "wait_for_approval")

    assert talk.message("approval_received", execution_id="x1", order_id=8).verdict is ReportResult.INVALID
    if came:
        talk.message("approval_received", {"by": "ann"}, execution_id="x1", order_id=7)
    else:
        assert talk.sleep() == 86_400

    assert talk.ran()[-2:] == ["process_approved" if came else "escalate", "end"]
    assert talk.status == "completed"


@pytest.mark.req("HUM-01", "V2C-25", "F-002-M")
@pytest.mark.parametrize(("decision", "step"), [("approve", "process"), ("reject", "reject")])
def test_form_values_are_the_result_that_rules_read(decision: str, step: str) -> None:
    talk = waiting("F-002-M", "manager_approval")
    assert talk.tasks[talk.task_id].asked.due_at == talk.clock.now() + 2 * 86_400

    talk.act("complete", roles=("finance_manager",), values={"decision": decision})

    assert talk.ran()[-2:] == [step, "end"]
    assert talk.execution.outputs.results["manager_approval"].result == {"decision": decision}


@pytest.mark.req("V2C-13", "MSG-06", "F-002-C")
def test_an_injected_event_reaches_the_rule_that_waits_for_it_only() -> None:
    talk = waiting("F-002-C", "wait_and_process")
    assert talk.status == "running", "it stays, since somebody outside may speak"

    talk.inject("message.received", {"type": "other"})
    talk.inject("something.else", {"type": "approval"})
    assert talk.run("wait_and_process").lease.order_id is None
    talk.inject("message.received", {"type": "approval"})
    talk.work("wait_and_process", {"approved": True})

    assert talk.ran()[-2:] == ["process_approved", "end"]
    assert [one.task for one in talk.payloads("task.processed")] == ["mark_approved"]
    assert talk.status == "completed"


@pytest.mark.req("MSG-06")
@pytest.mark.parametrize("name", ["step.done", "token.created", "call.done", "step.exit", "start", "StepStarted", ""])
def test_an_injected_event_cannot_use_a_system_name(name: str) -> None:
    talk = waiting("F-002-C", "wait_and_process")

    decision = talk.inject(name)

    assert (decision.verdict, decision.events) == (ReportResult.INVALID, ())
    assert "message.received" in (decision.detail or "")


@pytest.mark.req("MSG-06", "EVT-06")
def test_an_injected_event_with_a_key_is_recorded_once() -> None:
    talk = waiting("F-002-C", "wait_and_process")

    assert [talk.inject("a.b", key="k").verdict for _ in range(2)] == ["accepted", "duplicate"]
    assert talk.types().count("a.b") == 1


@pytest.mark.req("ADV-02", "MSG-05", "F-002-P")
@pytest.mark.parametrize(
    ("name", "data", "step"),
    [
        ("message.received", None, "handle_response"),
        ("timer.fired", None, "send_reminder"),
        ("signal.received", {"name": "cancelled"}, "abort"),
    ],
)
def test_each_event_of_a_gateway_leads_to_its_own_step_and_only_the_first_counts(
    name: str, data: Any, step: str
) -> None:
    talk = waiting("F-002-P", "wait_for_response")
    talk.signal("another")
    assert talk.run("wait_for_response").lease.order_id is None

    talk.inject(name, data)

    assert talk.ran()[-2:] == [step, "end"]
    assert talk.inject("message.received").verdict is ReportResult.TERMINAL


@pytest.mark.req("MSG-05", "F-002-P")
def test_a_broadcast_reaches_listening_rules() -> None:
    talk = waiting("F-002-P", "wait_for_response")

    talk.signal("cancelled")

    assert talk.ran()[-2:] == ["abort", "end"]


GATEWAY = (
    CASE
    + """
  - step: start
    next: [ears, work]
  - step: ears
    spec: {eval_mode: on_event}
    timer: {duration: 1h}
    human_task: {title: t, assignee: {user: ann}, due_date: 10m}
    case:
      - {when: "{{ event.name == 'human.overdue' }}", then: [{remind: {tool: {kind: python, code: x}}}]}
      - {when: "{{ event.name == 'timer.fired' and event.step == 'ears' }}", then: {next: late}}
      - {when: "{{ event.name == 'step.done' and event.step == 'work' }}", then: {set: {worked: true}}}
  - {step: work, tool: {kind: python, code: x}}
  - {step: late, tool: {kind: noop}}
"""
)


@pytest.mark.req("V2C-13", "HUM-04", "TMR-02")
def test_events_that_arrive_while_a_rule_runs_are_handled_afterwards() -> None:
    talk = Waiting(GATEWAY)
    talk.start()
    talk.work("ears")
    assert talk.sleep() == 600  # its own task is overdue, and a rule has that told
    talk.claim("ears")
    talk.wake(3_000)  # its timer fires while the worker is at it
    talk.done("work", 1)

    assert talk.execution.open_waits.waits == {}
    assert "late" not in talk.ran()
    talk.report(talk.report_of("ears", *case_entries(talk, "ears", "told")))

    assert talk.ran()[-1] == "late"
    assert talk.status == "completed"


@pytest.mark.req("V2C-13", "O-27")
def test_a_step_that_only_hears_internal_events_continues_when_nothing_else_is_live() -> None:
    talk = Waiting(
        CASE
        + """
  - step: start
    spec: {eval_mode: on_event}
    case: [{when: "{{ event.name == 'step.done' }}", then: {next: end}}]
  - {step: end}
"""
    )
    talk.start()
    talk.work("start")

    assert talk.status == "completed"


@pytest.mark.req("O-21", "V2C-13")
def test_a_lifetime_includes_listening() -> None:
    talk = Waiting(
        CASE
        + """
  - step: start
    spec: {eval_mode: on_event, timeout: 1h}
    case: [{when: "{{ event.name == 'message.received' }}", then: {next: end}}]
  - {step: end}
"""
    )
    talk.start()
    talk.work("start")

    assert talk.sleep() == 3600
    assert talk.execution.lifecycle.error is not None
    assert (talk.status, talk.execution.lifecycle.error.kind) == ("failed", "timeout")


@pytest.mark.req("V2C-12", "F-002-H")
def test_the_delay_of_a_transition_holds_its_token() -> None:
    talk = Waiting(fixture("F-002-H"))
    talk.start()
    talk.work("start")
    talk.work("target_step")
    talk.work("parallel_step")

    [held] = [one for one in talk.payloads("token.held") if one.reason == "delay"]
    assert held.until == talk.clock.now() + 5
    assert talk.ran().count("end") == 1
    assert talk.sleep() == 5

    assert talk.ran().count("end") == 2
    assert talk.status == "completed"
