"""Event sub-processes: handlers beside an active step, or instead of its body (ADV-01, O-34)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.commands import InjectEvent
from noetl.events.outcomes import Error, TaskResult
from noetl.events.steps import StepDone, StepFailed
from tests.engine_script import Conversation
from tests.side_runs.handled_playbook import TEXT, talk_of

INTERRUPTING = TEXT.replace("interrupting: false", "interrupting: true")


def inject(talk: Conversation, who: str = "ann", name: str = "audit.required") -> list[str]:
    """Inject the event; the handlers that run then, by the name of their task."""
    talk.tell(InjectEvent(at=talk.clock.now(), name=name, data={"who": who}))
    runs = [talk.execution.runs[one] for one in talk.execution.side_work.step_runs]
    handlers = {run.progress.position.task or "": run.step_run_id for run in runs}
    for task, run_id in handlers.items():
        talk.names[f"{task}#1"] = run_id
    return list(handlers)


def handled(talk: Conversation, name: str, result: Any = None, **decided: Any) -> None:
    talk.claim(name)
    entries = talk.task(name, result, **decided)
    talk.report(talk.report_of(name, *entries, StepDone(result=TaskResult(result=result))))


@pytest.mark.req("ADV-01")
def test_a_handler_runs_next_to_its_step_with_its_own_result() -> None:
    talk = talk_of()

    assert inject(talk) == ["audit"]
    handled(talk, "audit", 5, set_ctx={"audited": 5})
    assert talk.execution.variables.ctx == {"audited": 5}
    talk.done("start", 1)

    assert talk.ran() == ["start", "done"]
    assert talk.execution.outputs.results["start"].result == 1
    assert talk.status == "completed"
    assert [one.handler for one in talk.payloads("handler.done")] == [0]
    assert [one.handler for one in talk.payloads("handler.skipped")] == [1], "its condition does not hold"


@pytest.mark.req("ADV-01")
def test_every_handler_of_the_event_runs_for_each_event() -> None:
    talk = talk_of()

    assert inject(talk, "bob") == ["audit", "warn"]
    inject(talk, "bob")
    assert len(talk.execution.side_work.step_runs) == 4
    assert inject(talk, name="something.else")
    assert len(talk.execution.side_work.step_runs) == 4


@pytest.mark.req("ADV-01")
def test_the_execution_waits_for_a_handler_that_outlives_its_step() -> None:
    talk = talk_of()
    inject(talk)
    talk.done("start", 1)
    assert talk.status == "running"

    handled(talk, "audit")

    assert talk.status == "completed"


@pytest.mark.req("ADV-01")
def test_a_failing_handler_is_reported_and_has_no_other_effect() -> None:
    talk = talk_of()
    inject(talk)
    talk.claim("audit")
    error = Error(kind="py.exception", message="no disk")
    talk.report(talk.report_of("audit", *talk.task("audit", error=error), StepFailed(error=error)))
    talk.done("start", 1)

    assert [one.error.message for one in talk.payloads("handler.failed")] == ["no disk"]
    assert talk.status == "completed"


@pytest.mark.req("ADV-01")
def test_an_event_before_or_after_the_step_is_not_handled() -> None:
    talk = talk_of(
        """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {arcs: [{step: late}]}
  - step: late
    tool: {kind: python, code: x}
    on_event: {handlers: [{event: audit.required, then: [{name: audit, kind: python, code: x}]}]}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: python, code: x}}
"""
    )
    assert inject(talk) == []
    talk.done("start")
    talk.done("late")
    assert inject(talk) == []
    talk.done("after")
    assert talk.status == "completed"


@pytest.mark.req("ADV-01", "EVT-09")
def test_an_event_emitted_by_another_step_is_handled() -> None:
    talk = talk_of(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: long}, {step: short}]}
  - step: long
    tool: {kind: python, code: x}
    on_event: {handlers: [{event: audit.required, then: [{name: audit, kind: python, code: x}]}]}
  - step: short
    spec: {policy: {emit: {events: [{name: audit.required, data: {who: eve}}]}}}
    tool: {kind: python, code: x}
""".replace("  - step: start\n", "  - step: start\n    tool: {kind: python, code: x}\n")
    )
    talk.done("start")
    talk.claim("long")
    talk.done("short")

    [side_run] = talk.execution.side_work.step_runs
    assert talk.execution.runs[side_run].progress.position.task == "audit"


@pytest.mark.req("ADV-01", "O-34")
def test_an_interrupting_handler_cancels_the_step() -> None:
    talk = talk_of(INTERRUPTING)
    late = talk.report_of("start", *talk.task("start", 1), StepDone())
    inject(talk)
    assert talk.report(late)[0] == "cancelled", "the body's report comes too late"

    handled(talk, "audit", 5)

    assert talk.ran() == ["start", "end"]
    created = talk.payloads("token.created")[-1]
    assert created.args == {"e": {"event": "audit.required", "data": {"who": "ann"}, "result": 5, "error": None}}
    assert talk.status == "completed"


@pytest.mark.req("ADV-01", "O-34")
def test_a_second_event_does_not_interrupt_again() -> None:
    talk = talk_of(INTERRUPTING)
    inject(talk)
    inject(talk)

    assert len(talk.execution.side_work.step_runs) == 1


@pytest.mark.req("ADV-01")
def test_cancelling_an_execution_cancels_its_handlers() -> None:
    talk = talk_of()
    inject(talk)
    talk.claim("audit")

    talk.cancel()

    assert talk.execution.side_work.step_runs == {}
    assert talk.payloads("handler.failed")[0].stopped
    assert talk.status == "cancelled"


@pytest.mark.req("ADV-01", "SRV-07")
def test_events_for_handlers_are_queued_while_paused() -> None:
    talk = talk_of()
    talk.pause()
    assert inject(talk) == []

    talk.resume()

    assert len(talk.execution.side_work.step_runs) == 1


@pytest.mark.req("ADV-01")
def test_a_loop_is_interrupted_as_a_whole() -> None:
    talk = Conversation(
        """
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
    tool: {kind: python, code: x}
    on_event:
      spec: {interrupting: true}
      handlers: [{event: audit.required, then: [{name: audit, kind: python, code: x}]}]
    next: {arcs: [{step: end, when: "{{ event.name == 'step.interrupted' }}"}]}
  - step: end
"""
    )
    talk.start()
    inject(talk)
    assert len(talk.execution.order_states.open) == 1

    handled(talk, "audit")

    assert talk.ran() == ["start", "end"]
    assert talk.status == "completed"


@pytest.mark.req("ADV-01", "TMR-02")
def test_a_handler_of_a_waiting_step_is_active_too() -> None:
    talk = Conversation(
        """
workflow:
  - step: start
    timer: {id: t, duration: 60}
    on_event:
      spec: {interrupting: true}
      handlers: [{event: audit.required, then: [{name: audit, kind: python, code: x}]}]
    next:
      arcs: [{step: end, when: "{{ event.name == 'step.interrupted' }}"}, {step: later}]
  - step: later
  - step: end
"""
    )
    talk.start()
    inject(talk)
    handled(talk, "audit")

    assert talk.ran() == ["start", "end"]
    assert talk.execution.open_waits.waits == {}
    assert talk.execution.open_waits.due_times.nearest is None
    assert talk.status == "completed"
