"""An execution that is open longer than expected is late, once for each duration (NTF-07)."""

from __future__ import annotations

import pytest

from noetl.engine.commands import StartExecution, Wake
from tests.engine.waiting import Waiting

WAITS = """
on: {late: {after: 1h, notify: [{slack: {auth: chat}}]}}
workflow:
  - step: start
    message: {name: go}
"""


def start(talk: Waiting, *late_after_s: float) -> None:
    talk.tell(StartExecution(at=talk.clock.now(), net_hash=talk.plan.net_hash, late_after_s=late_after_s))


@pytest.mark.req("NTF-07")
def test_time_alone_makes_it_late_at_each_duration() -> None:
    talk = Waiting(WAITS)
    start(talk, 60.0, 3600.0)

    passed = [talk.sleep(), talk.sleep()]

    assert passed == [60.0, 3540.0]
    assert [one.after_s for one in talk.payloads("playbook.late")] == [60.0, 3600.0]
    assert talk.execution.wake_at is None
    assert talk.status == "running"


@pytest.mark.req("NTF-07")
def test_it_is_not_late_while_it_is_paused() -> None:
    talk = Waiting(WAITS)
    start(talk)
    talk.pause()
    talk.clock.advance(7200)
    talk.decide(Wake(at=talk.clock.now()))

    assert talk.payloads("playbook.late") == []
    talk.resume()
    assert [one.after_s for one in talk.payloads("playbook.late")] == [3600.0]


@pytest.mark.req("NTF-07")
def test_one_that_has_ended_is_never_late() -> None:
    talk = Waiting(WAITS)
    start(talk)
    talk.cancel()

    assert talk.status == "cancelled"
    assert talk.execution.wake_at is None
