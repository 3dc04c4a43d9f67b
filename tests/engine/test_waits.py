"""Wait blocks of plain steps: all arm together, the first that comes is the boundary event. Also
handlers of a step that waits (TMR-02, O-25, ADV-01, ADV-02)."""

from __future__ import annotations

import pytest

from noetl.events.orders import ReportResult
from tests.engine.waiting import Waiting
from tests.fixtures.running import fixture

TIMER = "workflow: [{step: start, timer: {%s}, next: {arcs: [{step: end}]}}, {step: end}]"


@pytest.mark.req("TMR-02", "TMR-06")
def test_a_timer_is_scheduled_after_the_pipeline_and_fires_when_due() -> None:
    talk = Waiting(fixture("F-R-TIMER"))
    talk.start()

    assert talk.types(of="wait")[-2:] == ["step.done", "timer.scheduled"]
    assert talk.wake(8_999) == []
    talk.wake(1)

    assert talk.ran() == ["start", "wait", "after"]
    assert talk.status == "completed"
    assert talk.payloads("next.selected")[1].event == "timer.fired"


@pytest.mark.req("TMR-06")
def test_an_overdue_timer_fires_at_once_on_restart() -> None:
    talk = Waiting(fixture("F-R-TIMER"))
    talk.start()

    talk.wake(1_000_000)

    assert talk.status == "completed"


@pytest.mark.req("TMR-04")
def test_cancelling_a_cancellable_timer_is_its_boundary_event() -> None:
    talk = Waiting(fixture("F-R-TIMER"))
    talk.start()

    assert talk.cancel_timer("wait").verdict is ReportResult.ACCEPTED

    assert talk.ran()[-1] == "stopped"
    assert talk.payloads("timer.cancelled")[0].actor == "ann"
    assert talk.execution.wake_at is None


@pytest.mark.req("TMR-04")
@pytest.mark.parametrize(
    ("timer_id", "verdict", "said"),
    [("t", ReportResult.REFUSED, "cancellable: true"), ("other", ReportResult.NOT_FOUND, 'no timer "other"')],
)
def test_other_timers_cannot_be_cancelled(timer_id: str, verdict: ReportResult, said: str) -> None:
    talk = Waiting(TIMER % "id: t, duration: 1h")
    talk.start()

    decision = talk.cancel_timer(timer_id)

    assert (decision.verdict, decision.events) == (verdict, ())
    assert said in (decision.detail or "")
    assert talk.sleep() == 3600


@pytest.mark.req("TMR-04")
def test_two_timers_with_one_name_have_different_wait_ids() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next: {arcs: [{step: wait, spec: {tokens: 2}}]}
  - step: wait
    timer: {id: t, duration: 1h, spec: {cancellable: true}}
"""
    )
    talk.start()
    first, second = talk.execution.open_waits.waits

    decision = talk.cancel_timer("t")
    assert decision.verdict is ReportResult.CONFLICT
    assert first in (decision.detail or "")
    assert talk.cancel_timer(second).verdict is ReportResult.ACCEPTED

    assert list(talk.execution.open_waits.waits) == [first]


@pytest.mark.req("TMR-03")
@pytest.mark.parametrize(
    ("timer", "seconds"),
    [
        ("duration: PT2H30M", 9_000),
        ("duration: P2D", 172_800),
        ("duration: 1h30m", 5_400),
        ("duration: 90", 90),
        ("duration: '{{ 60 * 2 }}'", 120),
        ("until: '2025-01-01T01:00:00Z'", 3_600),
        ("until: '2025-01-01T01:00:00+01:00'", 0),
        ("until: '{{ now() + duration(\"5m\") }}'", 300),
        ("until: '2024-01-01T00:00:00Z'", -1),
    ],
)
def test_timers_accept_times_and_durations(timer: str, seconds: float) -> None:
    """One that is over fires in the very decision that arms it."""
    talk = Waiting(TIMER % timer)
    talk.start()

    if seconds > 0:
        assert talk.sleep() == seconds
    assert talk.status == "completed"


@pytest.mark.req("TMR-03", "TPL-09")
@pytest.mark.parametrize(
    ("timer", "said"),
    [
        ("duration: '{{ \"soon\" }}'", 'timer.duration: "soon" is not a duration'),
        ("until: '{{ \"2025-01-01T01:00:00\" }}'", "with its offset"),
        ("duration: '{{ workload.at.all }}'", "is not a duration"),
        ("duration: '{{ \"99999999999d\" }}'", "must be less than 1e+11 seconds"),
        ("duration: '{{ 10 ** 11 }}'", "and less than 1e+11"),
        ("duration: 5, id: '{{ {} }}'", "timer.id must be a text"),
        ("duration: 5, id: '{{ \"a\\x00\" }}'", "timer.id holds a NUL character"),
    ],
)
def test_a_wait_that_cannot_be_rendered_fails_the_step(timer: str, said: str) -> None:
    talk = Waiting(TIMER % timer)
    talk.start()

    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert said in talk.execution.lifecycle.error.message


@pytest.mark.req("ADV-02", "TMR-02", "TMR-04", "MSG-01")
@pytest.mark.parametrize("winner", ["message", "timer", "signal"])
def test_the_first_wait_wins_and_the_others_are_cancelled(winner: str) -> None:
    talk = Waiting(fixture("F-R-GATEWAY"))
    talk.start()
    assert talk.event_names("timer.", "message.", "signal.") == ["timer.scheduled", "message.awaited", "signal.awaited"]
    assert len(talk.open_waits) == 2

    match winner:
        case "message":
            talk.message("response", {"a": 1}, order_id=7)
        case "timer":
            assert talk.sleep() == 3600
        case "signal":
            talk.signal("cancelled")

    went_to = {"message": "handle_response", "timer": "send_reminder", "signal": "abort"}[winner]
    assert talk.ran()[-1] == went_to
    assert talk.status == "completed"
    withdrawn = [one.withdrawn for one in talk.payloads("timer.cancelled")]
    assert withdrawn == ([] if winner == "timer" else [True])
    assert (talk.execution.open_waits.waits, talk.execution.open_waits.due_times.due) == ({}, {})


@pytest.mark.req("TMR-02", "TPL-07")
def test_the_pipeline_runs_first_and_its_result_is_the_result_of_the_step() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    tool: {name: work, kind: python, code: x}
    timer: {duration: "{{ work.data.after }}"}
    next: {arcs: [{step: end, args: {was: "{{ event.result.after }}", name: "{{ event.data.timer_id }}"}}]}
  - {step: end}
"""
    )
    talk.start()
    assert talk.execution.wake_at is None
    talk.done("start", {"after": 30})

    assert talk.run("start").lease.order_id is None, "no worker is held"
    assert talk.sleep() == 30
    assert talk.payloads("token.created")[-1].args == {"was": 30, "name": "start"}


@pytest.mark.req("TMR-02")
def test_a_failing_pipeline_never_starts_its_waits() -> None:
    talk = Waiting("workflow: [{step: start, tool: {kind: python, code: x}, timer: {duration: 1h}}]")
    talk.start()
    talk.failed("start")

    assert talk.status == "failed"
    assert talk.event_names("timer.") == []


@pytest.mark.req("O-16", "SRV-07")
def test_a_timer_that_fires_while_paused_is_held_until_resume() -> None:
    talk = Waiting(fixture("F-R-TIMER"))
    talk.start()
    talk.pause()

    assert talk.execution.wake_at is None
    assert talk.wake(10_000) == []
    talk.resume()

    assert talk.status == "completed"
    assert "after" in talk.ran()


@pytest.mark.req("SRV-11", "TMR-04", "O-02")
def test_cancelling_an_execution_cancels_all_waits() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    message: {name: m, timeout: 1h}
    signal: {name: s}
    timer: {duration: 1h}
    human_task: {title: t, assignee: {user: ann}, due_date: 1h}
"""
    )
    talk.start()
    task_id = talk.task_id

    talk.cancel()

    assert talk.status == "cancelled"
    assert (talk.execution.open_waits.waits, talk.execution.open_waits.due_times.due, talk.open_waits) == ({}, {}, {})
    assert talk.tasks[task_id].state == "withdrawn"
    assert talk.payloads("timer.cancelled")[0].withdrawn


@pytest.mark.req("O-21", "WRK-07")
@pytest.mark.parametrize(
    ("lifecycle", "after", "kind"),
    [("timeout_s: 60", 60, "timeout"), ("deadline_s: 40", 40, "deadline"), ("timeout_s: 7200", 3600, None)],
)
def test_a_lifetime_includes_the_wait(lifecycle: str, after: float, kind: str | None) -> None:
    talk = Waiting(
        f"workflow: [{{step: start, timer: {{duration: 1h}}, spec: {{policy: {{lifecycle: {{{lifecycle}}}}}}}}}]"
    )
    talk.start()

    assert talk.sleep() == after

    assert talk.status == ("completed" if kind is None else "failed")
    assert (talk.execution.lifecycle.error.kind if talk.execution.lifecycle.error else None) == kind
    assert talk.execution.open_waits.due_times.due == {}


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
def test_a_handler_runs_during_the_wait() -> None:
    talk = Waiting(PLAYBOOK % "false")
    talk.start()

    talk.inject("audit.required")
    assert len(talk.execution.order_states.open) == 1
    talk.message("m")

    assert talk.payloads("next.selected")[0].event == "message.received"


@pytest.mark.req("ADV-01", "TMR-04")
def test_an_interrupting_handler_cancels_the_waits() -> None:
    talk = Waiting(PLAYBOOK % "true")
    talk.start()
    task_id = talk.task_id

    talk.inject("audit.required")

    assert (talk.execution.open_waits.waits, talk.execution.open_waits.due_times.due, talk.open_waits) == ({}, {}, {})
    assert talk.tasks[task_id].state == "withdrawn"
    assert talk.payloads("timer.cancelled")[0].withdrawn
