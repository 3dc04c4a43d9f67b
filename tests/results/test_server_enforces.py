"""The server relies on no worker: too large is stored apart, forged is kept as refused (RES-03, SRV-04)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from noetl.engine.pipeline.progress import task_run_id
from noetl.events.envelope import Event
from noetl.events.large_values import put_back
from noetl.events.orders import Entry, Order, Report, ReportResult, Turn, read_turn
from noetl.events.outcomes import Error, Meta, Outcome, Status, TaskResult
from noetl.events.steps import CaseStarted, ReportRefused, StepDone, StepFailed
from noetl.events.tasks import Decided, TaskProcessed
from noetl.events.v2_case_positions import CaseDecision, CasePosition, Taken
from noetl.store.contract import Commit, Results
from tests.control.control_plane import ControlPlane, Counting
from tests.narrowing import payload

FIVE_MB = "f" * 5_000_000
READING = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {arcs: [{step: b}]}
  - step: b
    tool: {kind: python, code: result = len(start)}
"""


def processed(order: Order, result: object, **decided: Any) -> TaskProcessed:
    position = order.position
    run_id = task_run_id(order.step_run_id, position)
    meta = Meta(attempt=1, started_at=1.0, finished_at=1.0, trace_id="t1", task_run_id=run_id)
    assert position.task is not None
    return TaskProcessed(
        task=position.task,
        visit=position.visit,
        attempt=position.attempt,
        task_run_id=run_id,
        outcome=Outcome(status=Status.SUCCESS, result=result, meta=meta),
        decision=Decided(**{"rule": "default", "do": "continue", **decided}),
    )


async def stored(control_plane: ControlPlane) -> list[Event]:
    return await control_plane.store.events("x1")


def sizes(events: list[Event]) -> list[int]:
    return [len(msgspec.json.encode(event.payload)) for event in events]


@pytest.mark.req("RES-03", "SRV-04")
async def test_a_report_of_five_megabytes_is_stored_by_reference() -> None:
    control_plane = ControlPlane()
    await control_plane.start(READING)
    order = await control_plane.claim()

    entries = (processed(order, FIVE_MB, set_ctx={"big": FIVE_MB}), StepDone(result=TaskResult(result=FIVE_MB)))
    answer = await control_plane.turn(control_plane.report(order, *entries))

    events = await stored(control_plane)
    assert answer.verdicts == (ReportResult.ACCEPTED,)
    assert max(sizes(events)) < 2_000
    [done] = [event.payload.result for event in events if isinstance(event.payload, StepDone)]
    assert done.ref is not None
    assert done.ref.size == len(FIVE_MB) + 2
    assert control_plane.for_workers.load(done.ref) == FIVE_MB
    [following] = answer.orders
    assert following.ctx == {"big": FIVE_MB}
    assert following.results["start"] == done, "the state has the reference, not the value"


class Careful(Counting):
    """A store that looks, at each commit, whether everything its events name can be read already."""

    results: Results
    looked_up: int = 0

    async def commit(self, commits: Sequence[Commit]) -> None:
        for event in (event for commit in commits for event in commit.events):
            self.looked_up += len(event.payload.apart)
            put_back(event.payload, self.results.load)
            if isinstance(event.payload, StepDone) and event.payload.result.ref is not None:
                self.looked_up += 1
                self.results.load(event.payload.result.ref)
        await super().commit(commits)


@pytest.mark.req("RES-01", "SRV-05")
async def test_values_of_an_event_are_stored_before_the_event() -> None:
    """Otherwise a crash between the two leaves a log that nobody can read (reliability.md §3.6)."""
    store = Careful()
    control_plane = ControlPlane(store)
    store.results = control_plane.executions.values._results
    await control_plane.start()
    order = await control_plane.claim()

    done = StepDone(result=TaskResult(result=FIVE_MB))
    await control_plane.turn(control_plane.report(order, processed(order, 1, set_ctx={"big": FIVE_MB}), done))

    assert store.looked_up == 3, "the decision, the patch and the result"


@pytest.mark.req("RES-03")
async def test_a_long_error_message_is_truncated_by_the_server_too() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()

    await control_plane.turn(control_plane.report(order, StepFailed(error=Error(kind="k", message=FIVE_MB))))

    assert max(sizes(await stored(control_plane))) < 65_536
    execution = await control_plane.executions.ended_execution("x1")
    assert execution.lifecycle.error is not None
    assert execution.lifecycle.error.message.endswith("… (cut, 5000000 characters)")


@pytest.mark.req("RES-03", "EVT-07")
async def test_a_restarted_server_reads_stored_values() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    await control_plane.turn(
        control_plane.report(order, processed(order, 1, set_ctx={"big": FIVE_MB}), StepDone()), capacity=0
    )
    live = (await control_plane.executions.execution("x1")).execution

    control_plane.executions.release("x1")
    told = (await control_plane.executions.execution("x1")).execution

    assert told is not live
    assert told == live
    assert told.variables.ctx == {"big": FIVE_MB}


def forged_next(report: Report) -> bytes:
    sent = msgspec.to_builtins(Turn(worker_id="w1", reports=(report,)))
    sent["reports"][0]["next"] = "b"
    return msgspec.json.encode(sent)


@pytest.mark.req("SRV-04")
async def test_a_report_that_names_the_next_step_is_recorded_as_refused_and_starts_nothing() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    before = [event.event_type for event in await stored(control_plane)]

    answer = await control_plane.for_workers.turn(read_turn(forged_next(control_plane.done(order))))

    assert answer.verdicts == (ReportResult.REFUSED,)
    events = await stored(control_plane)
    assert [event.event_type for event in events] == [*before, "report.refused"]
    refused = payload(events[-1], ReportRefused)
    assert (refused.reason, refused.detail) == ("forged", "a report has no next")
    assert (await control_plane.turn(control_plane.done(order))).verdicts == (ReportResult.ACCEPTED,), (
        "the honest one still counts"
    )


TAKEN = Taken(rule=0, action=0, step="b")
CASE = CaseDecision(position=CasePosition(taken=(TAKEN,)))


@pytest.mark.req("SRV-04", "WRK-05")
@pytest.mark.parametrize("how", ["a transition", "an entry of case", "a task that is a step"])
async def test_a_v10_report_has_no_field_to_name_a_next_step(how: str) -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    forged: dict[str, Entry] = {
        "a transition": processed(order, 1, case=CASE),
        "an entry of case": CaseStarted(decision=Decided(rule=0, do="continue", case=CASE)),
        "a task that is a step": processed(order, 1, next="b"),
    }

    answer = await control_plane.turn(control_plane.report(order, forged[how], StepDone()), capacity=0)

    assert answer.verdicts == (ReportResult.REFUSED,)
    assert (await stored(control_plane))[-1].event_type == "report.refused"
    assert list((await control_plane.executions.execution("x1")).execution.runs) == [order.step_run_id]


@pytest.mark.req("EVT-06")
async def test_an_end_reported_three_times_is_one_row_and_one_set_of_tokens() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    report = control_plane.done(order)

    verdicts = [(await control_plane.turn(report, capacity=0)).verdicts[0] for _ in range(3)]

    names = [event.event_type for event in await stored(control_plane)]
    assert verdicts == [ReportResult.ACCEPTED, ReportResult.DUPLICATE, ReportResult.DUPLICATE]
    assert names.count("step.done") == 1
    assert names.count("token.created") == 2, "the start token and that of the next step"
