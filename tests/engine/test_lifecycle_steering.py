"""Pause, resume and cancel (SRV-07, SRV-11, O-02, O-16)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import CancelExecution, ClaimOrder, PauseExecution, ResumeExecution, StartExecution
from noetl.engine.decision import CloseOrder
from noetl.events.orders import ReportResult
from tests.engine_script import Conversation

PY = "tool: {kind: python, code: x}"
TWO = f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}
  - {{step: a, {PY}, next: {{arcs: [{{step: c}}]}}}}
  - {{step: b, {PY}}}
  - {{step: c, {PY}}}
"""


def begun(text: str = TWO) -> Conversation:
    talk = Conversation(text)
    talk.start()
    return talk


@pytest.mark.req("SRV-07")
def test_a_paused_execution_issues_no_order_and_lets_running_tasks_finish() -> None:
    talk = begun()
    talk.claim("a")
    talk.pause()

    b = talk.run("b")
    assert b.lease.order_id is not None
    refused = talk.decide(ClaimOrder(at=talk.clock.now(), order_id=b.lease.order_id, worker_id="w2"))
    assert refused.verdict is ReportResult.PAUSED
    assert refused.events == ()
    talk.done("a")
    assert talk.running() == ["b#1"], "c is held"

    talk.resume()
    assert talk.running() == ["b#1", "c#1"]
    talk.done("b")
    talk.done("c")
    assert talk.status == "completed"


def test_pausing_or_resuming_twice_is_a_duplicate() -> None:
    talk = begun()
    now = talk.clock.now()

    assert talk.decide(ResumeExecution(at=now)).verdict is ReportResult.DUPLICATE
    assert talk.decide(PauseExecution(at=now, reason="look at it")).verdict is ReportResult.ACCEPTED
    assert talk.decide(PauseExecution(at=now)).verdict is ReportResult.DUPLICATE
    assert [one.reason for one in talk.payloads("playbook.paused")] == ["look at it"]


@pytest.mark.req("SRV-11")
def test_a_cancelled_execution_closes_every_open_order_and_has_no_boundary_event() -> None:
    talk = begun()
    talk.claim("a")
    decision = talk.decide(CancelExecution(at=talk.clock.now(), reason="no longer needed"))

    assert talk.status == "cancelled"
    assert len([effect for effect in decision.effects if isinstance(effect, CloseOrder)]) == 2
    assert not {"step.done", "step.failed"} & {event.event_type for event in decision.events}
    assert [event.event_type for event in decision.events][-2:] == ["workflow.finished", "playbook.processed"]
    assert talk.execution.lifecycle.error is not None
    assert (talk.execution.lifecycle.error.kind, talk.execution.lifecycle.error.message) == (
        "cancelled",
        "no longer needed",
    )
    for command in (CancelExecution(at=0.0), PauseExecution(at=0.0), ResumeExecution(at=0.0)):
        assert talk.decide(command).verdict is ReportResult.TERMINAL


def test_a_paused_execution_can_be_cancelled() -> None:
    talk = begun()
    talk.pause()

    talk.cancel()

    assert talk.status == "cancelled"


def test_a_paused_execution_completes_when_its_last_task_ends() -> None:
    talk = begun(f"workflow: [{{step: start, {PY}}}]")
    talk.claim("start")
    talk.pause()

    talk.done("start")

    assert talk.status == "completed"


@pytest.mark.req("O-16")
def test_a_child_of_a_paused_parent_starts_paused() -> None:
    talk = Conversation(TWO)
    talk.tell(StartExecution(at=talk.clock.now(), net_hash=talk.plan.net_hash, paused=True, depth=2))

    assert talk.ran() == []
    assert talk.execution.origin.depth == 2
    talk.resume()
    assert talk.running() == ["a#1", "b#1"]


@pytest.mark.req("O-03", "SRV-07")
def test_a_parked_token_is_evaluated_again_on_resume() -> None:
    rule = '{when: "{{ ctx.n | default(0) > 0 }}", then: {allow: true}}, {else: {then: {park: true}}}'
    talk = begun(
        f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: gate}}, {{step: a}}]}}
  - step: gate
    spec: {{policy: {{admit: {{rules: [{rule}]}}}}}}
    {PY}
  - {{step: a, {PY}}}
"""
    )
    talk.claim("a")
    talk.pause()
    talk.done("a", set_ctx={"n": 1})
    assert talk.running() == []
    assert talk.status == "running"

    talk.resume()

    assert talk.running() == ["gate#1"]


@pytest.mark.req("SRV-07", "LOOP-05")
def test_a_paused_loop_issues_no_further_iterations() -> None:
    talk = begun(
        f"""
workflow:
  - step: start
    loop: {{in: "{{{{ range(100) | list }}}}", iterator: x, spec: {{mode: parallel, max_in_flight: 2}}}}
    {PY}
"""
    )
    before = talk.types().count("loop.scheduled")
    assert before > 0

    talk.pause()
    talk.cancel()

    assert talk.status == "cancelled"
    assert talk.types().count("loop.scheduled") == before
    assert talk.execution.order_states.open == {}
