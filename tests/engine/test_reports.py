"""Leases and reports: who may say what happened (WRK-02, WRK-03, WRK-04, EVT-06, SRV-04)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.engine.commands import ClaimOrder
from noetl.events.orders import Report, ReportResult
from noetl.events.steps import StepDone
from noetl.events.tasks import TaskProcessed
from tests.engine_script import Conversation
from tests.narrowing import payload

THREE = """
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: x}
      - {name: two, kind: python, code: x}
      - {name: three, kind: python, code: x}
"""


@pytest.fixture
def talk() -> Conversation:
    talk = Conversation(THREE)
    talk.start()
    return talk


@pytest.mark.req("WRK-03")
def test_a_late_report_from_a_lost_lease_is_recorded_as_refused_and_has_no_effect(talk: Conversation) -> None:
    talk.claim("start", worker_id="w1")
    late = talk.report_of("start", *talk.task("start", 1, next="two"), worker_id="w1")
    talk.claim("start", worker_id="w2")

    verdict, events = talk.report(late)

    assert verdict is ReportResult.FENCED
    assert [event.event_type for event in events] == ["report.refused"]
    assert talk.run("start").progress.position.task == "one"


@pytest.mark.req("WRK-03", "EVT-06")
def test_refused_reports_are_recorded_once_per_order_epoch_and_worker(talk: Conversation) -> None:
    talk.claim("start", worker_id="w1")
    late = talk.report_of("start", *talk.task("start", 1, next="two"), worker_id="w1")
    further = talk.report_of("start", StepDone(), worker_id="w1")
    talk.claim("start", worker_id="w2")
    of_another = talk.report_of("start", StepDone(), worker_id="w3")

    said = [talk.report(report) for report in (late, late, further, of_another, of_another)]

    assert [verdict for verdict, _ in said] == [ReportResult.FENCED] * 5
    assert [len(events) for _, events in said] == [1, 0, 0, 1, 0]
    assert [refused.worker_id for refused in talk.payloads("report.refused")] == ["w1", "w3"]


@pytest.mark.req("WRK-03")
def test_an_order_is_claimed_once_per_epoch(talk: Conversation) -> None:
    order_id = talk.run("start").lease.order_id
    assert order_id is not None
    claim = ClaimOrder(at=talk.clock.now(), order_id=order_id, worker_id="w1")

    assert talk.decide(claim).verdict is ReportResult.ACCEPTED
    assert talk.decide(claim).verdict is ReportResult.FENCED
    assert talk.run("start").lease.lease_epoch == 1


def test_a_worker_cannot_report_under_the_lease_of_another(talk: Conversation) -> None:
    talk.claim("start", worker_id="w1")

    verdict, _ = talk.report(talk.report_of("start", StepDone(), worker_id="w2"))

    assert verdict is ReportResult.FENCED
    assert talk.status == "running"


@pytest.mark.req("WRK-04", "O-06")
def test_a_second_lease_resumes_after_the_last_recorded_directive(talk: Conversation) -> None:
    talk.claim("start")
    talk.report(talk.report_of("start", *talk.task("start", 1, next="two", set_iter={"k": 5})))
    [started, _] = talk.task("start", 2, next="three")
    talk.report(talk.report_of("start", started))

    talk.claim("start", worker_id="w2")

    position = talk.run("start").progress.position
    assert (position.task, position.iter, position.prev.result if position.prev else None) == ("two", {"k": 5}, 1)
    assert talk.run("start").lease.lease_epoch == 2
    assert talk.types().count("step.started") == 1


@pytest.mark.req("EVT-06")
def test_a_repeated_report_adds_nothing_and_is_acknowledged(talk: Conversation) -> None:
    talk.claim("start")
    report = talk.report_of("start", *talk.task("start", 1, next="two"))

    first, second = talk.report(report), talk.report(report)

    assert first[0] is ReportResult.ACCEPTED
    assert (second[0], second[1]) == (ReportResult.DUPLICATE, [])


@pytest.mark.req("EVT-06")
def test_a_repeated_task_start_is_recorded_once_per_lease(talk: Conversation) -> None:
    """Its worker heard no answer and says it again; under another lease it has started a second time."""
    talk.claim("start")
    report = talk.report_of("start", talk.task("start", 1)[0])

    first, second = talk.report(report), talk.report(report)
    third = talk.report(talk.report_of("start", *talk.task("start", 1, next="two")))

    assert [first[0], second[0], third[0]] == [ReportResult.ACCEPTED, ReportResult.DUPLICATE, ReportResult.ACCEPTED]
    assert talk.types().count("task.started") == 1
    assert [event.event_type for event in third[1]] == ["task.processed"]
    talk.report(talk.report_of("start", talk.task("start", 1)[0]))
    talk.claim("start", worker_id="w2")
    again = talk.report(talk.report_of("start", talk.task("start", 1)[0], worker_id="w2"))
    assert again[0] is ReportResult.ACCEPTED
    assert talk.types().count("task.started") == 3


@pytest.mark.req("EVT-06")
def test_repeating_the_report_that_ended_the_execution_is_acknowledged(talk: Conversation) -> None:
    talk.claim("start")
    report = talk.report_of("start", StepDone())
    talk.report(report)
    length = len(talk.log)

    assert talk.report(report)[0] is ReportResult.DUPLICATE
    assert talk.status == "completed"
    assert len(talk.log) == length


def test_a_report_to_an_ended_execution_is_answered_and_not_stored(talk: Conversation) -> None:
    talk.claim("start")
    report = talk.report_of("start", StepDone())
    late = msgspec.structs.replace(report, lease_epoch=7)
    talk.report(report)
    length = len(talk.log)

    verdict, _ = talk.report(late)

    assert verdict is ReportResult.TERMINAL
    assert len(talk.log) == length


def test_a_report_has_no_field_for_a_next_step() -> None:
    """Nothing a worker sends creates a token: a report that tries is not even a report."""
    forged = {
        "order_id": "o",
        "execution_id": "x1",
        "lease_epoch": 1,
        "worker_id": "w1",
        "entries": [],
        "next": "somewhere",
    }

    with pytest.raises(msgspec.ValidationError, match="next"):
        msgspec.convert(forged, Report)


@pytest.mark.req("TASK-05")
def test_task_events_name_their_task_and_run(talk: Conversation) -> None:
    talk.claim("start")
    talk.report(talk.report_of("start", *talk.task("start", 1, next="two")))

    processed = next(event for event in talk.log if event.event_type == "task.processed")
    about = payload(processed, TaskProcessed)
    assert about.task == "one"
    assert processed.task_run_id == about.task_run_id
    assert processed.step_run_id == talk.names["start#1"]
