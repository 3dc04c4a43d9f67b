"""Listeners and control: a paused execution tells its listeners later, a cancelled one not at all (SRV-07, V2C-13)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution
from tests.case_talk import case_entries
from tests.conversing import Conversation

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: case, path: tests/case, dialect: v2-case}
workflow:
  - {step: start, next: [ears, work]}
  - step: ears
    spec: {eval_mode: on_event}
    case: [{when: "{{ event.name == 'step.done' and event.step == 'work' }}", then: {next: heard}}]
  - {step: work, tool: {kind: python, code: x}, next: more}
  - {step: more, tool: {kind: python, code: x}}
  - {step: heard, tool: {kind: python, code: x}}
"""


def listening() -> Conversation:
    talk = Conversation(PLAYBOOK)
    talk.start()
    talk.claim("ears")
    talk.report(talk.report_of("ears", *case_entries(talk, "ears")))
    assert talk.run("ears").order_id is None, "no worker is held"
    return talk


@pytest.mark.req("V2C-13", "EVT-06")
def test_reporting_again_that_it_waits_changes_nothing() -> None:
    talk = Conversation(PLAYBOOK)
    talk.start()
    talk.claim("ears")
    report = talk.report_of("ears", *case_entries(talk, "ears"))

    verdicts = [talk.report(report)[0] for _ in range(2)]

    assert verdicts == ["accepted", "duplicate"]
    assert talk.types().count("case.waiting") == 1


@pytest.mark.req("V2C-13", "SRV-07", "O-16")
def test_what_a_paused_execution_would_have_told_is_heard_when_it_resumes() -> None:
    talk = listening()
    talk.claim("work")
    talk.tell(PauseExecution(at=talk.clock.now()))

    talk.done("work", 1)
    assert "case.heard" not in talk.types()
    talk.tell(ResumeExecution(at=talk.clock.now()))

    assert talk.types().count("case.heard") == 1
    assert "heard" in talk.ran()


@pytest.mark.req("V2C-13", "SRV-11")
def test_a_cancelled_execution_leaves_no_listener() -> None:
    talk = listening()

    talk.tell(CancelExecution(at=talk.clock.now()))

    assert talk.execution.listeners == {}
    assert talk.status == "cancelled"
