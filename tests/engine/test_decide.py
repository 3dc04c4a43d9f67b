"""Attributes of tracing: on every event of the step whose author wrote them, and on no other (ADV-07)."""

from __future__ import annotations

import pytest

from tests.engine_script import Conversation

PLAYBOOK = """
workflow:
  - step: start
    spec: {policy: {tracing: TRACING}}
    tool: {kind: python, code: x}
    compensate: {tool: {kind: python, code: x}}
    next: {arcs: [{step: after}]}
  - step: after
"""


def told(tracing: str) -> Conversation:
    talk = Conversation(PLAYBOOK.replace("TRACING", tracing))
    talk.start()
    talk.done("start#1")
    assert talk.status == "completed"
    return talk


@pytest.mark.req("ADV-07")
def test_every_event_of_a_step_has_its_trace_attributes_and_no_other_event() -> None:
    talk = told("{enabled: true, attributes: {team: billing, weight: 2}}")

    of_the_step = [event for event in talk.log if event.step == "start"]
    assert {event.source.value for event in of_the_step} == {"server", "worker"}
    assert all(event.payload.attributes == {"team": "billing", "weight": 2} for event in of_the_step)
    assert not any(event.payload.attributes for event in talk.log if event.step != "start")


@pytest.mark.req("ADV-07")
@pytest.mark.parametrize("tracing", ["{enabled: false, attributes: {team: billing}}", "{enabled: true}", "{}"])
def test_events_without_tracing_have_no_attributes(tracing: str) -> None:
    assert not any(event.payload.attributes for event in told(tracing).log)
