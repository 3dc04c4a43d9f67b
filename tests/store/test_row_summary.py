"""What lists show of an execution: whom and what it waits for, and that it is late."""

from __future__ import annotations

import pytest

from noetl.engine.commands import DeliverMessage, StartExecution, Wake
from noetl.engine.waits.state import WaitKind
from noetl.store.row_summary import NOTHING, RowSummary, summary_of
from tests.engine.waiting import Waiting

WAITS = """
workflow:
  - step: start
    next: {arcs: [{step: told, spec: {tokens: 2}}, {step: stop}, {step: ask}, {step: later}], spec: {mode: inclusive}}
  - step: told
    message: {name: go}
  - step: stop
    signal: {name: stop}
  - step: ask
    human_task: {title: "Go?", assignee: {user: ann}}
  - step: later
    timer: {duration: 2h}
"""
ONE = """
workflow:
  - step: start
    message: {name: go}
"""


def summary(talk: Waiting) -> RowSummary:
    return summary_of(talk.execution) or NOTHING


@pytest.mark.req("MSG-01", "MSG-05")
def test_messages_signals_and_people_that_an_execution_waits_for_are_counted() -> None:
    talk = Waiting(WAITS)
    talk.start()
    first = summary(talk)

    talk.signal("stop")
    waiting = next(wait for wait in talk.execution.open_waits.waits.values() if wait.kind is WaitKind.MESSAGE)
    talk.tell(DeliverMessage(at=talk.clock.now(), wait_id=waiting.wait_id, message_id="m1", name="go", payload=None))
    second = summary(talk)
    talk.cancel()

    assert (first.tasks, first.messages, first.signals) == (1, 2, 1)
    assert (second.tasks, second.messages, second.signals) == (1, 1, 0)
    assert summary_of(talk.execution) is None, "it is over and waits for nothing"


@pytest.mark.req("NTF-07")
def test_an_execution_is_late_from_its_expected_duration_on_unless_it_is_paused_or_over() -> None:
    talk = Waiting(ONE)
    talk.tell(StartExecution(at=talk.clock.now(), net_hash=talk.plan.net_hash, late_after_s=(60.0,)))
    before = summary(talk).late

    talk.clock.advance(60)
    talk.decide(Wake(at=talk.clock.now()))
    after = summary(talk).late
    talk.pause()
    paused = summary(talk).late
    talk.resume()
    resumed = summary(talk).late
    talk.message("go")

    assert (before, after, paused, resumed) == (False, True, False, True)
    assert (talk.status, summary(talk).late) == ("completed", False)
