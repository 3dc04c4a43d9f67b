"""Listeners and control: a paused execution tells its listeners later, a cancelled one not at all (SRV-07, V2C-13)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution
from tests.case_worker_script import case_entries
from tests.engine_script import Conversation

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
    assert talk.run("ears").lease.order_id is None, "no worker is held"
    return talk


@pytest.mark.req("V2C-13", "EVT-06")
def test_a_repeated_waiting_report_changes_nothing() -> None:
    talk = Conversation(PLAYBOOK)
    talk.start()
    talk.claim("ears")
    report = talk.report_of("ears", *case_entries(talk, "ears"))

    verdicts = [talk.report(report)[0] for _ in range(2)]

    assert verdicts == ["accepted", "duplicate"]
    assert talk.types().count("case.waiting") == 1


@pytest.mark.req("V2C-13", "SRV-07", "O-16")
def test_events_of_a_paused_execution_are_delivered_to_rules_on_resume() -> None:
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

    assert talk.execution.open_waits.listeners == {}
    assert talk.status == "cancelled"


LONE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: case, path: tests/case, dialect: v2-case}}
workflow:
  - step: start
    spec: {{eval_mode: on_event}}
    case: [{{when: "{when}", then: {{next: heard}}}}]
  - {{step: heard, tool: {{kind: python, code: x}}}}
"""


def alone(when: str) -> Conversation:
    """Nothing but a step that listens by this rule is live."""
    talk = Conversation(LONE.format(when=when))
    talk.start()
    talk.claim("start")
    talk.report(talk.report_of("start", *case_entries(talk, "start")))
    return talk


@pytest.mark.req("V2C-13", "MSG-06")
@pytest.mark.parametrize(
    "when",
    [
        "{{ event.name == 'order.paid' }}",
        "{{ event.data.type == 'approval' }}",
        "{{ event.name.startswith('order.') }}",
        "{{ event.name == workload.awaited }}",
        "{{ event.name != 'step.done' and event.data.ok }}",
        "{{ not (event.name == 'step.done') and event.data.ok }}",
        "{{ event.name == 'step.done' or event.data.ok }}",
        "{% if event.name ~ '' == 'order.paid' %}yes{% endif %}",
    ],
)
def test_a_step_whose_rules_match_injected_events_keeps_listening(when: str) -> None:
    """Such an event may be injected whenever somebody likes: the step must not be gone by then."""
    talk = alone(when)

    assert list(talk.execution.open_waits.listeners) == [talk.run("start").step_run_id]
    assert talk.status == "running"


@pytest.mark.req("V2C-13", "O-27")
@pytest.mark.parametrize(
    "when",
    [
        "{{ event.name == 'step.done' and event.data.ok }}",
        "{{ event.name in ['step.failed', 'loop.done'] }}",
        "{{ event.step == 'work' and event.data.ok }}",
        "{{ event.status == 'error' }}",
        "{{ event.error.kind == 'timeout' }}",
        "{{ vars.ready }}",
    ],
)
def test_a_step_whose_rules_match_internal_events_only_ends_with_the_last_other_step(when: str) -> None:
    talk = alone(when)

    assert talk.execution.open_waits.listeners == {}
    assert talk.status == "completed"
