"""The `timeout` block of a step: what becomes of its body, its waits and its token (TMR-05)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import ClaimOrder, Wake
from noetl.engine.decision import CloseOrder
from noetl.events.orders import ReportResult
from tests.engine.waiting import Waiting

BODY = """
workflow:
  - step: start
    %s
    timeout: {duration: 300s%s}
    next: {arcs: [{step: end}, {step: broken, when: "{{ event.error.kind == 'timeout' }}"}]}
  - {step: end}
  - {step: broken}
  - {step: other}
"""
ALTERNATIVE = ", spec: {on_timeout: alternative}, alternative_step: other"
PYTHON = "tool: {kind: python, code: x}"


def timed(body: str, options: str) -> Waiting:
    return Waiting(BODY % (body, options))


@pytest.mark.req("TMR-05", "F-002-K")
def test_an_alternative_stops_the_step_and_routes_the_token_to_another_one() -> None:
    talk = timed(PYTHON, ALTERNATIVE)
    talk.start()
    talk.claim("start")
    order_id = talk.run("start").lease.order_id
    late = talk.report_of("start", *talk.task("start", 1))

    talk.clock.advance(300)
    decision = talk.decide(Wake(at=talk.clock.now()))

    assert [one.order_id for one in decision.effects if isinstance(one, CloseOrder)] == [order_id]
    assert talk.ran() == ["start", "other"]
    assert talk.payloads("next.selected")[0].event == "step.timeout"
    assert talk.report(late)[0] is ReportResult.TERMINAL
    assert talk.status == "completed"


@pytest.mark.req("TMR-05", "F-002-K")
def test_by_default_a_timeout_fails_the_step_and_an_arc_can_handle_it() -> None:
    talk = timed(PYTHON, "")
    talk.start()
    talk.claim("start")
    late = talk.report_of("start", *talk.task("start", 1))
    talk.sleep()

    assert talk.types(of="start")[-5:] == [
        "step.timeout", "step.failed", "next.selected", "next.enqueued", "token.consumed",
    ]  # fmt: skip
    assert talk.ran() == ["start", "broken"]
    assert talk.report(late)[0] is ReportResult.TERMINAL


@pytest.mark.req("TMR-05")
def test_the_worker_of_a_timed_out_step_is_stopped() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, tool: {kind: python, code: x}, timeout: {duration: 1m}, spec: {policy: {failure: {mode: best_effort}}}}
  - {step: b, tool: {kind: python, code: x}}
"""
    )
    talk.start()
    talk.claim("a")
    late = talk.report_of("a", *talk.task("a", 1))
    talk.wake(60)

    assert talk.report(late)[0] is ReportResult.CANCELLED
    assert talk.running() == ["b#1"]


@pytest.mark.req("TMR-05", "F-002-K")
def test_an_ignored_timeout_is_only_recorded() -> None:
    talk = timed(PYTHON, ", spec: {on_timeout: ignore}")
    talk.start()
    talk.claim("start")
    talk.sleep()
    assert talk.execution.wake_at is None

    talk.done("start", 1)

    assert talk.ran() == ["start", "end"]
    assert talk.types().count("step.timeout") == 1


@pytest.mark.req("TMR-05")
def test_a_timeout_counts_from_the_start_of_the_step_to_its_end() -> None:
    talk = timed(PYTHON, "")
    talk.start()
    unclaimed = talk.execution.wake_at
    talk.clock.advance(1000)
    talk.claim("start")
    assert unclaimed is None, "nobody has begun"
    assert talk.execution.wake_at == talk.clock.now() + 300

    talk.done("start", 1)

    assert talk.execution.open_waits.due_times.due == {}


@pytest.mark.req("TMR-05", "TMR-02")
def test_a_timeout_includes_the_waits_of_the_step() -> None:
    talk = timed("message: {name: m}\n    timer: {duration: 1h}", ALTERNATIVE)
    talk.start()

    assert talk.sleep() == 300

    assert talk.ran() == ["start", "other"]
    assert (talk.execution.open_waits.waits, talk.execution.open_waits.due_times.due, talk.open_waits) == ({}, {}, {})


@pytest.mark.req("TMR-05", "LOOP-05")
def test_a_timeout_includes_the_loop_of_the_step() -> None:
    talk = timed("loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}\n    " + PYTHON, ALTERNATIVE)
    talk.start()
    [order_id, *_] = talk.execution.order_states.open
    talk.tell(ClaimOrder(at=talk.clock.now(), order_id=order_id, worker_id="w1"))
    talk.sleep()

    assert talk.ran() == ["start", "other"]
    assert talk.execution.order_states.open == {}


@pytest.mark.req("TMR-05", "TPL-09")
def test_a_timeout_that_cannot_be_rendered_fails_the_token() -> None:
    talk = Waiting("workflow: [{step: start, timeout: {duration: '{{ \"soon\" }}'}}]")
    talk.start()

    assert talk.status == "failed"
    assert "timeout.duration" in str(talk.execution.lifecycle.error)


@pytest.mark.req("TMR-05", "TMR-06")
def test_a_report_after_the_timeout_is_late_even_if_the_timer_has_not_fired() -> None:
    talk = timed(PYTHON, ALTERNATIVE)
    talk.start()
    talk.claim("start")
    late = talk.report_of("start", *talk.task("start", 1))
    talk.clock.advance(301)

    assert talk.report(late)[0] is ReportResult.TERMINAL

    assert talk.ran() == ["start", "other"]


@pytest.mark.req("TMR-05", "WRK-03")
def test_a_claim_succeeds_even_if_another_timer_is_due() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: wait}, {step: work}]}
  - {step: wait, timer: {duration: 1m}, next: {arcs: [{step: end, spec: {cancel: [work]}}]}}
  - {step: work, tool: {kind: python, code: x}}
  - {step: end}
"""
    )
    talk.start()
    talk.clock.advance(60)

    talk.claim("work")
    assert talk.run("work").lease.lease_epoch == 1
    talk.wake()

    assert talk.ran()[-1] == "end"
    assert talk.running() == []
