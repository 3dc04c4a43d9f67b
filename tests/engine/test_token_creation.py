"""The life of tokens (TOK-02 to TOK-06)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import RecordReport
from noetl.events.orders import ReportResult
from noetl.events.steps import StepDone
from tests.engine_script import Conversation

PY = '{kind: python, code: "result = 1"}'

CHAIN = f"""
workflow:
  - step: a
    tool: {PY}
    next: {{arcs: [{{step: b, args: {{x: 1}}}}]}}
  - step: b
    tool: {PY}
    next: {{arcs: [{{step: c}}]}}
  - step: c
    tool: {PY}
executor: {{spec: {{entry_step: a}}}}
"""

DIAMOND = f"""
workflow:
  - step: start
    tool: {PY}
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: left}}, {{step: right}}]}}
  - step: left
    tool: {PY}
    next: {{arcs: [{{step: last}}]}}
  - step: right
    tool: {PY}
    next: {{arcs: [{{step: last}}]}}
  - step: last
    tool: {PY}
"""


@pytest.mark.req("TOK-04", "EVT-08")
def test_a_plain_step_run_has_exactly_these_events() -> None:
    talk = Conversation(CHAIN)

    talk.start()
    talk.done("a", 1)

    assert talk.types(of="a") == [
        "token.created",
        "token.enqueued",
        "step.scheduled",
        "token.claimed",
        "step.started",
        "task.started",
        "task.processed",
        "step.done",
        "next.selected",
        "next.enqueued",
        "token.consumed",
    ]


@pytest.mark.req("TOK-02")
def test_tokens_are_created_by_the_request_and_by_fired_arcs_only() -> None:
    talk = Conversation(DIAMOND)

    talk.start()
    for name in ("start", "left", "right", "last#1", "last#2"):
        talk.done(name)

    assert talk.status == "completed"
    assert talk.types().count("token.created") == 1 + talk.types().count("next.enqueued")


@pytest.mark.req("TOK-03", "SRV-06")
def test_a_diamond_without_join_runs_its_last_step_twice_and_ends_once_after_both() -> None:
    talk = Conversation(DIAMOND)

    talk.start()
    for name in ("start", "left", "right"):
        talk.done(name)
    assert talk.names["last#1"] != talk.names["last#2"]
    talk.done("last#1")
    assert talk.status == "running"
    talk.done("last#2")

    assert talk.types()[-2:] == ["workflow.finished", "playbook.processed"]
    assert talk.types().count("workflow.finished") == 1
    assert talk.types().count("playbook.processed") == 1
    assert talk.status == "completed"


@pytest.mark.req("TOK-05", "ROUTE-06")
def test_args_reach_the_target_step_and_no_further() -> None:
    talk = Conversation(CHAIN)

    talk.start()
    talk.done("a")
    assert talk.run("b").token.args == {"x": 1}
    talk.done("b")

    assert talk.run("c").token.args == {}


@pytest.mark.req("TOK-06", "EVT-06")
def test_an_end_reported_three_times_creates_one_token() -> None:
    talk = Conversation(CHAIN)
    talk.start()
    talk.claim("a")
    report = talk.report_of("a", *talk.task("a", 1), StepDone())

    verdicts = [talk.report(report)[0] for _ in range(3)]

    assert verdicts == [ReportResult.ACCEPTED, ReportResult.DUPLICATE, ReportResult.DUPLICATE]
    assert talk.types().count("step.done") == 1
    assert talk.ran() == ["a", "b"]


@pytest.mark.req("TOK-06")
def test_deciding_a_boundary_event_again_gives_the_same_token() -> None:
    """After a crash between decision and commit the same report is decided anew, from the same state."""
    tokens = []
    for _ in range(2):
        talk = Conversation(CHAIN)
        talk.start()
        talk.claim("a")
        report = talk.report_of("a", *talk.task("a", 1), StepDone())
        talk.tell(RecordReport(at=talk.clock.now(), report=report))
        tokens.append(talk.payloads("next.enqueued")[0].token_id)

    assert tokens[0] == tokens[1]


def test_every_event_names_its_cause() -> None:
    talk = Conversation(CHAIN)

    talk.start()
    talk.done("a")

    known = {event.event_id for event in talk.log}
    roots = {event.event_type for event in talk.log if event.parent_id not in known}
    assert roots <= {
        "playbook.execution_requested",
        "playbook.request_evaluated",
        "workflow.started",
        "token.created",
        "token.enqueued",
    }
