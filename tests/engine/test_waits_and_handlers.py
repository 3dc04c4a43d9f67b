"""Event handlers of a step that waits: beside the wait, or instead of it (ADV-01, TMR-02)."""

from __future__ import annotations

import pytest

from tests.engine.waiting import Waiting

PLAYBOOK = """
workflow:
  - step: start
    message: {name: m}
    timer: {duration: 1h}
    human_task: {title: t, assignee: {user: ann}}
    on_event:
      spec: {interrupting: %s}
      handlers: [{event: audit.required, then: [{name: audit, kind: python, code: x}]}]
    next: {arcs: [{step: end}]}
  - {step: end}
"""


@pytest.mark.req("ADV-01", "TMR-02")
def test_a_handler_runs_beside_the_wait() -> None:
    talk = Waiting(PLAYBOOK % "false")
    talk.start()

    talk.inject("audit.required")
    assert len(talk.execution.order_states.open) == 1
    talk.message("m")

    assert talk.payloads("next.selected")[0].event == "message.received"


@pytest.mark.req("ADV-01", "TMR-04")
def test_an_interrupting_handler_withdraws_the_waits() -> None:
    talk = Waiting(PLAYBOOK % "true")
    talk.start()
    task_id = talk.task_id

    talk.inject("audit.required")

    assert (talk.execution.open_waits.waits, talk.execution.open_waits.due_times.due, talk.open_waits) == ({}, {}, {})
    assert talk.tasks[task_id].state == "withdrawn"
    assert talk.payloads("timer.cancelled")[0].withdrawn
