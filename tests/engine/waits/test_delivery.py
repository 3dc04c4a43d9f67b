"""Messages and signals: who receives them, once, and what happens if one does not arrive (MSG-01 to MSG-05)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.commands import DeliverMessage
from noetl.engine.waits.state import WaitKind
from noetl.events.orders import ReportResult
from tests.engine.waiting import Waiting
from tests.fixtures.running import fixture


@pytest.mark.req("MSG-01", "F-R-GATEWAY")
def test_the_message_payload_is_available_to_arcs_and_the_step() -> None:
    talk = Waiting(fixture("F-R-GATEWAY"))
    talk.start()

    talk.message("response", {"a": 1}, order_id=7, more=True)

    assert talk.payloads("token.created")[-1].args == {"body": {"a": 1}}
    assert talk.execution.outputs.results["wait_for_response"].result == {"a": 1}


@pytest.mark.req("MSG-01")
@pytest.mark.parametrize(
    ("name", "correlation"),
    [("response", {"order_id": 8}), ("response", {}), ("response", {"order_id": "7"}), ("other", {"order_id": 7})],
)
def test_another_message_than_the_awaited_one_changes_nothing(name: str, correlation: dict[str, Any]) -> None:
    talk = Waiting(fixture("F-R-GATEWAY"))
    talk.start()

    decision = talk.message(name, **correlation)

    assert (decision.verdict, decision.events) == (ReportResult.INVALID, ())


@pytest.mark.req("MSG-02", "MSG-05", "ADV-02")
def test_later_messages_for_an_ended_wait_are_refused() -> None:
    talk = Waiting(
        "workflow: [{step: start, message: {name: m}, next: {arcs: [{step: b}]}}, {step: b, signal: {name: s}}]"
    )
    talk.start()
    wait_id = talk.wait(WaitKind.MESSAGE).wait_id
    talk.message("m")

    again = talk.decide(_message(talk, wait_id, "m1"))
    other = talk.decide(_message(talk, wait_id, "m2"))

    assert [again.verdict, other.verdict] == [ReportResult.DUPLICATE, ReportResult.NOT_FOUND]
    assert talk.signal("s").verdict is ReportResult.ACCEPTED
    assert talk.signal("s", signal_id="s2").verdict is ReportResult.TERMINAL


def _message(talk: Waiting, wait_id: str, message_id: str) -> DeliverMessage:
    return DeliverMessage(at=talk.clock.now(), wait_id=wait_id, message_id=message_id, name="m")


@pytest.mark.req("MSG-05")
def test_a_signal_reaches_every_waiting_step_and_is_recorded_once() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
  - {step: a, signal: {name: go}}
  - {step: b, signal: {name: go}}
  - {step: c, signal: {name: stop}}
"""
    )
    talk.start()

    talk.signal("go", {"n": 1})

    assert [one.again for one in talk.payloads("signal.received")] == [False, True]
    assert talk.running() == ["c#1"]
    assert talk.signal("go", signal_id="s1").verdict is ReportResult.DUPLICATE


MESSAGE = """
workflow:
  - step: start
    message: {name: m, timeout: 1h, spec: {timeout_action: %s}}
    next: {arcs: [{step: got, when: "{{ event.name == 'message.received' }}"},
                  {step: late, when: "{{ event.name == 'message.timeout' }}"},
                  {step: broken, when: "{{ event.name == 'step.failed' and event.error.kind == 'message.timeout' }}"}]}
  - {step: got}
  - {step: late}
  - {step: broken}
"""


@pytest.mark.req("MSG-04")
@pytest.mark.parametrize(("action", "went_to"), [("escalate", "late"), ("fail", "broken"), ("ignore", None)])
def test_a_message_wait_times_out(action: str, went_to: str | None) -> None:
    talk = Waiting(MESSAGE % action)
    talk.start()

    assert talk.sleep() == 3600

    assert talk.payloads("message.timeout")[0].action == action
    if went_to is not None:
        assert talk.ran()[-1] == went_to
        return
    assert talk.execution.wake_at is None, "it waits on, without a limit"
    talk.message("m")
    assert talk.ran()[-1] == "got"


@pytest.mark.req("O-16")
def test_a_paused_execution_refuses_a_message_and_records_a_signal() -> None:
    talk = Waiting(fixture("F-R-GATEWAY"))
    talk.start()
    talk.pause()

    assert talk.message("response", order_id=7).verdict is ReportResult.PAUSED
    talk.signal("cancelled")
    assert talk.running() == [], "its arcs are chosen, and nothing new is dispatched"
    talk.resume()

    assert talk.ran()[-1] == "abort"


@pytest.mark.req("MSG-01", "TPL-09")
@pytest.mark.parametrize(
    ("correlation", "said"),
    [
        ("{" + ", ".join(f"k{n}: {n}" for n in range(9)) + "}", "at most 8 are allowed"),
        ("{k: \"{{ 'x' * 5000 }}\"}", "over 1024 bytes"),
    ],
)
def test_a_correlation_that_cannot_be_indexed_fails_the_step(correlation: str, said: str) -> None:
    talk = Waiting(f"workflow: [{{step: start, message: {{name: m, correlation: {correlation}}}}}]")
    talk.start()

    assert talk.status == "failed"
    assert said in str(talk.execution.lifecycle.error)
