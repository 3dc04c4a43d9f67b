"""How an execution begins, when it is late, and what becomes of its children (SRV-01, SRV-03, TOK-01, NTF-07)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import CancelExecution, Command, PauseExecution, ResumeExecution, StartExecution, Wake
from noetl.engine.decision import CancelCalled, CancelChildren, ChildEffect, PauseChildren, ResumeChildren
from noetl.events.executions import ExecutionRequested, WorkflowStarted
from noetl.events.tokens import TokenCreated
from tests.engine.waiting import Waiting
from tests.engine_script import Conversation

ONE = """
workload: {a: {x: 1, y: 2}, l: [1]}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
"""


@pytest.mark.req("SRV-01")
def test_the_first_events_of_a_run_are_always_the_same() -> None:
    talk = Conversation(ONE)

    events = talk.start()

    assert [event.event_type for event in events] == [
        "playbook.execution_requested",
        "playbook.request_evaluated",
        "workflow.started",
        "token.created",
        "token.enqueued",
        "step.scheduled",
    ]


@pytest.mark.req("SRV-03", "SCOPE-01")
def test_the_payload_is_merged_over_the_workload_and_then_constant() -> None:
    talk = Conversation(ONE)

    talk.start(a={"y": 3}, l=[])
    talk.done("start", 1)

    [started] = talk.payloads("workflow.started")
    assert started.workload == {"a": {"x": 1, "y": 3}, "l": []}
    assert talk.execution.origin.workload == started.workload
    assert [type(event.payload) for event in talk.log].count(WorkflowStarted) == 1


@pytest.mark.req("TOK-01")
def test_the_start_token_carries_every_mandatory_field() -> None:
    talk = Conversation(ONE)

    talk.start()

    created = next(event for event in talk.log if isinstance(event.payload, TokenCreated))
    assert created.execution_id == "x1"
    assert created.trace_id == "t1"
    assert created.payload == TokenCreated(
        token_id=talk.run("start").token.token_id, step="start", path="tests/test", args={}
    )


@pytest.mark.req("EVT-08")
def test_a_step_without_a_worker_is_scheduled_and_not_started() -> None:
    talk = Conversation(ONE)

    talk.start()

    assert "step.scheduled" in talk.types()
    assert "step.started" not in talk.types()


def test_the_request_is_recorded_with_the_net_it_pins() -> None:
    talk = Conversation(ONE)

    talk.start(n=1)

    [requested] = talk.payloads("playbook.execution_requested")
    net_hash = talk.plan.net_hash
    assert requested == ExecutionRequested(path="tests/test", net_hash=net_hash, trace_id="t1", payload={"n": 1})


def test_starting_twice_gives_the_same_events_with_the_same_ids() -> None:
    """A repeated decision must collide with the first one, not add a second (O-05)."""
    first, second = Conversation(ONE), Conversation(ONE)

    assert first.start(n=1) == second.start(n=1)


@pytest.mark.req("DOC-15")
def test_ctx_starts_with_its_root_values_rendered_from_the_input_only() -> None:
    talk = Conversation("ctx: {total: 0, limit: '{{ workload.a.x + 1 }}', bare: '{{ l }}'}" + ONE)

    events = talk.start(a={"x": 4})

    assert talk.execution.variables.ctx == {"total": 0, "limit": 5, "bare": [1]}
    assert [event.event_type for event in events][4:7] == ["token.enqueued", "ctx.patched", "step.scheduled"]


@pytest.mark.req("DOC-15")
def test_ctx_that_cannot_be_rendered_fails_the_execution_with_the_reason() -> None:
    talk = Conversation("ctx: {limit: '{{ 1 / workload.a.x }}'}" + ONE)

    talk.start(a={"x": 0})

    assert talk.status == "failed"
    assert talk.ran() == []
    assert "the ctx of the playbook" in talk.payloads("playbook.processed")[0].error.message


CALLING = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    timeout: {duration: 300s, spec: {on_timeout: %s}, alternative_step: other}
  - {step: other}
"""


def talk_about(on_timeout: str = "alternative") -> Conversation:
    talk = Conversation(CALLING % on_timeout)
    talk.start()
    return talk


def said_of_children(talk: Conversation, command: Command) -> list[ChildEffect]:
    return [effect for effect in talk.decide(command).effects if isinstance(effect, ChildEffect)]


@pytest.mark.req("O-16")
def test_children_are_paused_and_resumed_with_their_parent() -> None:
    talk = talk_about()

    assert said_of_children(talk, PauseExecution(at=1.0)) == [PauseChildren(reason="its parent was paused")]
    assert said_of_children(talk, PauseExecution(at=1.0)) == [], "it was so already"
    assert said_of_children(talk, ResumeExecution(at=2.0)) == [ResumeChildren(reason="its parent was resumed")]


@pytest.mark.req("O-02")
@pytest.mark.parametrize("compensate", [False, True])
def test_children_are_cancelled_with_their_parent(compensate: bool) -> None:
    talk = talk_about()
    effects = said_of_children(talk, CancelExecution(at=1.0, reason="enough", compensate=compensate))

    assert CancelChildren(reason="its parent was cancelled", compensate=compensate) in effects


def test_a_step_that_times_out_cancels_the_children_it_called() -> None:
    talk = talk_about()
    talk.claim("start")
    run = talk.run("start")
    talk.clock.advance(300)

    [effect, *_] = said_of_children(talk, Wake(at=talk.clock.now()))

    assert effect == CancelCalled(step_run_id=run.step_run_id, reason="the step that waited for it has timed out")


def test_the_end_of_a_step_cancels_no_child() -> None:
    talk = talk_about()
    talk.claim("start")
    talk.done("start")
    assert talk.status == "completed"

    assert said_of_children(talk, CancelExecution(at=1.0)) == []


WAITS = """
on: {late: {after: 1h, notify: [{slack: {auth: chat}}]}}
workflow:
  - step: start
    message: {name: go}
"""


def start(talk: Waiting, *late_after_s: float) -> None:
    talk.tell(StartExecution(at=talk.clock.now(), net_hash=talk.plan.net_hash, late_after_s=late_after_s))


@pytest.mark.req("NTF-07")
def test_an_execution_is_reported_late_at_each_duration() -> None:
    talk = Waiting(WAITS)
    start(talk, 60.0, 3600.0)

    passed = [talk.sleep(), talk.sleep()]

    assert passed == [60.0, 3540.0]
    assert [one.after_s for one in talk.payloads("playbook.late")] == [60.0, 3600.0]
    assert talk.execution.wake_at is None
    assert talk.status == "running"


@pytest.mark.req("NTF-07")
def test_a_paused_execution_is_not_reported_late() -> None:
    talk = Waiting(WAITS)
    start(talk)
    talk.pause()
    talk.clock.advance(7200)
    talk.decide(Wake(at=talk.clock.now()))

    assert talk.payloads("playbook.late") == []
    talk.resume()
    assert [one.after_s for one in talk.payloads("playbook.late")] == [3600.0]


@pytest.mark.req("NTF-07")
def test_an_ended_execution_is_never_reported_late() -> None:
    talk = Waiting(WAITS)
    start(talk)
    talk.cancel()

    assert talk.status == "cancelled"
    assert talk.execution.wake_at is None
