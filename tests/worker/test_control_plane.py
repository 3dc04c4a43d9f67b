"""Work that tools have begun elsewhere ends with an order that was withdrawn, and with no other (SRV-11)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.events.orders import ReportResult, Turn, TurnAnswer
from noetl.worker.control_plane import Begun, CancelledOrders
from tests.worker.accepting_control_plane import AcceptingControlPlane
from tests.worker.orders import an_order

ORDER = an_order("poll", order_id="o1", step_run_id="r1", lease_epoch=3)


class Asked(AcceptingControlPlane):
    """An office that says one thing of every report."""

    def __init__(self, verdict: ReportResult) -> None:
        self._verdict, self.turns = verdict, list[Turn]()

    async def turn(self, turn: Turn) -> TurnAnswer:
        self.turns.append(turn)
        return TurnAnswer(verdicts=(self._verdict,) * len(turn.reports))


class Jobs:
    def __init__(self, *names: str, broken: Sequence[str] = ()) -> None:
        self.ended: list[str] = []
        self.begun: Begun = {name: self._end(name, name in broken) for name in names}

    def _end(self, name: str, is_broken: bool) -> Any:
        async def end() -> None:
            if is_broken:
                raise ToolError("quantum.job", "with the token in it")
            self.ended.append(name)

        return end


async def ended(control_plane: Asked, jobs: Jobs, verdict: ReportResult | None = None) -> list[str]:
    here = CancelledOrders(control_plane, "w1")
    here.end(ORDER, jobs.begun, verdict)
    await here.settled()
    return jobs.ended


@pytest.mark.req("SRV-11")
@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (ReportResult.TERMINAL, ["a", "b"]),
        (ReportResult.CANCELLED, ["a", "b"]),
        (ReportResult.FENCED, []),
        (ReportResult.DUPLICATE, []),
        (ReportResult.REFUSED, []),
    ],
)
async def test_a_submitted_job_is_ended_unless_another_worker_has_the_order(
    verdict: ReportResult, expected: list[str]
) -> None:
    asked, told = Asked(verdict), Asked(ReportResult.REFUSED)

    assert await ended(asked, Jobs("a", "b")) == expected
    [[report]] = [turn.reports for turn in asked.turns]
    assert (report.order_id, report.lease_epoch, report.entries) == ("o1", 3, ())
    assert await ended(told, Jobs("a", "b"), verdict) == expected
    assert told.turns == [], "the server has said it already"


async def test_no_request_is_made_without_submitted_jobs() -> None:
    control_plane = Asked(ReportResult.TERMINAL)

    assert await ended(control_plane, Jobs()) == []
    assert control_plane.turns == []


async def test_a_job_that_cannot_be_ended_is_logged_by_kind_and_the_others_are_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await ended(Asked(ReportResult.TERMINAL), Jobs("a", "b", "c", broken=["b"])) == ["a", "c"]

    assert "something that order o1 had begun could not be ended: quantum.job" in caplog.text
    assert "token" not in caplog.text
