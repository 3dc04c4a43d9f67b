"""Compensation: what steps have done is undone in reverse, once each, with what was captured (SAGA-01 to SAGA-04)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.commands import CancelExecution, LoseOrder, PauseExecution
from noetl.events.outcomes import Error, TaskResult
from noetl.events.steps import StepDone, StepFailed
from tests.engine_script import Conversation
from tests.playbook_runs import Ran, broken, run_here
from tests.side_runs.sagas import ORDER, compensation_outcomes, ended

DONE: dict[str, Any] = {"start_task": {"id": 1}, "charge_task": {"id": 2}}


def failing(**answers: Any) -> Ran:
    return run_here(ORDER, **{**DONE, "ship_task": broken(), **answers})


@pytest.mark.req("SAGA-01")
def test_a_compensation_reads_the_values_at_the_end_of_its_step() -> None:
    """`n` was 1 then, and is 2 when the compensation runs."""
    ran = failing()

    assert ran.tool.inputs_of("start_compensate")[0]["args"] == {"id": 1, "n": 1}
    assert ran.tool.inputs_of("charge_compensate")[0]["args"] == {"id": 2}
    registered = ran.payloads("compensation.registered")
    assert [(one.step, one.result.result, one.ctx) for one in registered] == [
        ("start", {"id": 1}, {"n": 1}),
        ("charge", {"id": 2}, {}),
    ]


@pytest.mark.req("SAGA-01")
def test_a_failed_step_registers_no_compensation() -> None:
    ran = failing(charge_task=broken())

    assert [one.step for one in ran.payloads("compensation.registered")] == ["start"]
    assert ran.payloads("compensation.requested") == []  # nobody asked for it: manual is the default
    assert ran.result.status == "failed"


@pytest.mark.req("SAGA-02")
def test_registered_compensations_run_in_reverse_and_then_the_target() -> None:
    ran = failing()

    assert ended(ran.events) == [("done", "charge"), ("done", "start")]
    names = ran.types()
    last = max(index for index, name in enumerate(names) if name == "compensation.done")
    scheduled = [
        index for index, event in enumerate(ran.events) if event.step == "sorry" and names[index] == "token.enqueued"
    ]
    assert scheduled[0] > last
    assert ran.result.status == "completed"


@pytest.mark.req("SAGA-02")
def test_a_trigger_without_registered_compensations_continues_at_once() -> None:
    text = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {arcs: [{step: sorry, when: "{{ event.name == 'step.failed' }}", spec: {trigger_compensation: true}}]}
  - {step: sorry, tool: {kind: python, code: x}}
"""
    ran = run_here(text, start_task=broken())

    assert compensation_outcomes(ran.events) == []
    assert ran.tool.inputs_of("sorry_task")
    assert ran.result.status == "completed"


@pytest.mark.req("SAGA-03")
def test_a_failing_compensation_is_reported_the_rest_runs_and_the_execution_fails() -> None:
    ran = failing(charge_compensate=broken(message="the bank is closed"))

    assert ended(ran.events) == [("failed", "charge"), ("done", "start")]
    assert ran.tool.inputs_of("sorry_task"), "the target still runs"
    assert ran.result.status == "failed"
    assert ran.result.error is not None
    assert ran.result.error.kind == "compensation.failed"
    assert "the bank is closed" in ran.result.error.message


def conversation() -> Conversation:
    """Both steps are done, and ship has failed: the compensation of charge is ready."""
    talk = Conversation(ORDER)
    talk.start()
    talk.done("start", {"id": 1})
    talk.done("charge", {"id": 2})
    talk.failed("ship")
    return talk


def under_way(talk: Conversation) -> str:
    """Name the compensation that is being run."""
    [run_id] = talk.execution.side_work.step_runs
    talk.names["undo#1"] = run_id
    return "undo"


def undone(talk: Conversation, result: Any = None) -> None:
    name = under_way(talk)
    if talk.run(name).lease.lease_epoch == 0:
        talk.claim(name)
    talk.report(talk.report_of(name, *talk.task(name, result), StepDone(result=TaskResult(result=result))))


@pytest.mark.req("SAGA-03")
def test_a_started_non_idempotent_compensation_is_unknown_after_its_worker_was_lost() -> None:
    talk = conversation()
    talk.claim(under_way(talk))
    talk.report(talk.report_of("undo", talk.task("undo")[0]))  # it has begun, and nothing more is heard

    talk.claim("undo", worker_id="w2")

    assert ended(talk.log) == [("unknown", "charge")]
    undone(talk)
    assert ended(talk.log) == [("unknown", "charge"), ("done", "start")]
    talk.done("sorry")
    assert talk.status == "failed"


@pytest.mark.req("SAGA-03")
def test_a_compensation_that_had_not_started_runs_on_another_worker() -> None:
    talk = conversation()
    talk.claim(under_way(talk))

    events = talk.claim("undo", worker_id="w2")

    assert [event.event_type for event in events] == ["order.claimed"]


@pytest.mark.req("SAGA-03")
def test_an_idempotent_compensation_is_repeated_after_its_worker_was_lost() -> None:
    talk = conversation()
    undone(talk)
    talk.claim(under_way(talk))
    talk.report(talk.report_of("undo", talk.task("undo")[0]))

    events = talk.claim("undo", worker_id="w2")

    assert [event.event_type for event in events] == ["order.claimed"]
    assert talk.run("undo").step == "start"


@pytest.mark.req("SAGA-03")
def test_a_compensation_runs_once_however_often_it_is_triggered() -> None:
    talk = conversation()
    undone(talk)
    undone(talk)
    assert talk.execution.side_work.saga is not None
    assert talk.execution.side_work.saga.registered == {}
    talk.tell(CancelExecution(at=talk.clock.now(), compensate=True))

    assert ended(talk.log) == [("done", "charge"), ("done", "start")]
    assert talk.status == "cancelled"


@pytest.mark.req("SRV-11", "SAGA-02")
def test_cancelling_a_paused_execution_runs_its_compensations_and_ends_it() -> None:
    """Who cancels has no reason to resume it as well."""
    talk = Conversation(ORDER)
    talk.start()
    talk.done("start", {"id": 1})
    talk.tell(PauseExecution(at=talk.clock.now()))

    talk.tell(CancelExecution(at=talk.clock.now(), compensate=True))
    undone(talk)

    assert ended(talk.log) == [("done", "start")]
    assert talk.status == "cancelled"


AUTO = ORDER.replace("workflow:", "executor: {spec: {policy: {compensation: auto}}}\nworkflow:", 1).replace(
    """        - {step: sorry, when: "{{ event.name == 'step.failed' }}", spec: {trigger_compensation: true}}\n""", ""
)


@pytest.mark.req("SAGA-04")
def test_auto_compensates_an_execution_that_is_about_to_fail() -> None:
    ran = run_here(AUTO, **DONE, ship_task=broken())

    assert ended(ran.events) == [("done", "charge"), ("done", "start")]
    assert ran.payloads("compensation.requested")[0].cause == "auto"
    assert ran.types()[-2:] == ["workflow.finished", "playbook.processed"]
    assert ran.result.status == "failed"


@pytest.mark.req("SAGA-04")
def test_auto_does_not_compensate_a_completed_execution() -> None:
    ran = run_here(AUTO, **DONE)

    assert ended(ran.events) == []
    assert ran.result.status == "completed"


LOOPED = """
executor: {spec: {policy: {compensation: auto}}}
workflow:
  - step: start
    loop: {in: [10, 20, 30], iterator: x, spec: {mode: sequential}}
    tool: {kind: python, code: x, args: {x: "{{ iter.x }}"}}
    compensate: {tool: {kind: python, code: x, args: {x: "{{ iter.x }}", at: "{{ iter.index }}", r: "{{ result }}"}}}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: python, code: x}}
"""


@pytest.mark.req("SAGA-04")
def test_a_loop_registers_a_compensation_for_each_successful_iteration() -> None:
    ran = run_here(LOOPED, start_task=lambda inputs, context: inputs["args"]["x"] + 1, after_task=broken())

    undone_args = [one["args"] for one in ran.tool.inputs_of("start_compensate")]
    assert undone_args == [{"x": 30, "at": 2, "r": 31}, {"x": 20, "at": 1, "r": 21}, {"x": 10, "at": 0, "r": 11}]
    assert ran.result.status == "failed"


@pytest.mark.req("SAGA-04")
def test_a_failing_loop_compensates_its_successful_iterations() -> None:
    ran = run_here(LOOPED, start_task=lambda inputs, context: 1 if inputs["args"]["x"] == 10 else broken())

    assert [one["args"]["x"] for one in ran.tool.inputs_of("start_compensate")] == [10]


@pytest.mark.req("O-02", "SAGA-02")
def test_cancelling_compensates_only_on_request() -> None:
    for compensate, expected in ((False, []), (True, ["start"])):
        talk = Conversation(ORDER)
        talk.start()
        talk.done("start", {"id": 1})
        talk.claim("charge")
        talk.tell(CancelExecution(at=talk.clock.now(), reason="enough", compensate=compensate))
        if compensate:
            assert talk.status == "running"
            undone(talk)
        assert [step for _, step in ended(talk.log)] == expected
        assert talk.status == "cancelled"


@pytest.mark.req("O-02", "SAGA-03")
def test_a_second_cancel_stops_the_compensation_too() -> None:
    talk = conversation()
    talk.claim(under_way(talk))

    talk.tell(CancelExecution(at=talk.clock.now()))

    assert ended(talk.log) == [("unknown", "charge")]
    assert talk.status == "cancelled"
    assert talk.execution.side_work.saga is not None
    assert [one.step for one in talk.execution.side_work.saga.registered.values()] == ["start"], "it stays as it is"


@pytest.mark.req("SRV-07", "SAGA-02")
def test_no_further_compensation_starts_while_paused() -> None:
    talk = conversation()
    talk.claim(under_way(talk))
    talk.pause()
    talk.report(talk.report_of("undo", *talk.task("undo"), StepDone()))
    assert talk.execution.side_work.step_runs == {}

    talk.resume()

    assert [talk.execution.runs[one].step for one in talk.execution.side_work.step_runs] == ["start"]


@pytest.mark.req("SAGA-03")
def test_a_repeated_or_late_report_of_a_compensation_adds_nothing() -> None:
    talk = conversation()
    talk.claim(under_way(talk))
    report = talk.report_of("undo", *talk.task("undo"), StepFailed(error=Error(kind="x", message="y")))
    talk.report(report)
    length = len(talk.log)

    verdict, events = talk.report(report)

    assert (verdict, events, len(talk.log)) == ("duplicate", [], length)


@pytest.mark.req("SAGA-03")
def test_a_compensation_that_loses_worker_after_worker_is_given_up() -> None:
    talk = conversation()
    undone(talk)
    talk.claim(under_way(talk))

    order_id = talk.run("undo").lease.order_id
    assert order_id is not None
    talk.tell(LoseOrder(at=talk.clock.now(), order_id=order_id, seen_epoch=1))

    assert ended(talk.log) == [("done", "charge"), ("failed", "start")]
    assert talk.payloads("compensation.failed")[0].error.kind == "lease.lost"
