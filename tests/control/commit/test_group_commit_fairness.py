"""Fairness, by counted work: how much of one large report is decided before another caller has an answer (P8). Figures
in time are in `bench/promises.py`."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from noetl.control.claiming.turns import MOST_ENTRIES, split_report
from noetl.control.commit.group_commit import MOST_EVENTS, SHARED_EVENTS
from noetl.events.loops import IterationDone, IterationStarted
from noetl.events.orders import Entry, Order, Report, ReportResult, Timed
from noetl.events.outcomes import Error
from noetl.events.steps import CaseStarted, StepFailed
from noetl.events.tasks import Decided
from tests.control.control_plane import ControlPlane

LOOP = """
workflow:
  - step: start
    loop: { in: "{{ range(8000) | list }}", iterator: x, spec: { mode: parallel } }
    tool: { kind: python, code: "result = 1" }
"""


def _iterations(order: Order, number: int) -> list[Entry]:
    assert order.iterations is not None
    first = order.iterations.first
    return [
        entry
        for index in range(first, first + number)
        for entry in (IterationStarted(index=index, path=(index,)), IterationDone(index=index, path=(index,)))
    ]


async def _busy(control_plane: ControlPlane, number: int = 200) -> Report:
    await control_plane.start(LOOP, execution_id="busy")
    order = await control_plane.claim()
    return control_plane.report(order, *_iterations(order, number))


def _of_busy(control_plane: ControlPlane, commits: int) -> list[int]:
    """How many events of it each of the first commits has."""
    return [
        sum(len(one.events) for one in batch if one.execution.execution_id == "busy")
        for batch in control_plane.store.commits[:commits]
    ]


@pytest.mark.req("SRV-06")
async def test_a_command_next_to_a_long_report_waits_for_one_part_of_it_only() -> None:
    control_plane = ControlPlane(shared=True)
    report = await _busy(control_plane)
    control_plane.store.commits.clear()

    answer, _ = await asyncio.gather(control_plane.turn(report, capacity=0), control_plane.start(execution_id="other"))

    assert answer.verdicts == (ReportResult.ACCEPTED,)
    where = next(
        at
        for at, batch in enumerate(control_plane.store.commits)
        if any(one.execution.execution_id == "other" for one in batch)
    )
    before = sum(_of_busy(control_plane, where + 1))
    assert before < len(report.entries) / 2
    assert before <= SHARED_EVENTS + MOST_ENTRIES, f"{before} of {len(report.entries)} events came before the other"
    assert sum(_of_busy(control_plane, len(control_plane.store.commits))) == len(report.entries)


async def test_a_long_report_without_competition_has_large_batches() -> None:
    control_plane = ControlPlane(shared=True)
    report = await _busy(control_plane)
    control_plane.store.commits.clear()

    await control_plane.turn(report, capacity=0)

    assert _of_busy(control_plane, 9) == [MOST_EVENTS, len(report.entries) - MOST_EVENTS]


async def test_a_repeated_long_report_is_recognised_whole_and_in_part() -> None:
    control_plane = ControlPlane(shared=True)
    report = await _busy(control_plane)
    half = msgspec.structs.replace(report, entries=report.entries[: len(report.entries) // 2])

    verdicts = [(await control_plane.turn(one, capacity=0)).verdicts for one in (half, report, report)]

    assert verdicts == [(ReportResult.ACCEPTED,), (ReportResult.ACCEPTED,), (ReportResult.DUPLICATE,)]
    events = await control_plane.store.events("busy")
    assert [one.event_type for one in events].count("loop.iteration.done") == 200


def test_reports_that_must_be_decided_as_a_whole_are_not_split() -> None:
    plain: list[Entry] = [IterationStarted(index=n, path=(n,)) for n in range(MOST_ENTRIES + 1)]
    failed = StepFailed(error=Error(kind="timeout", message="m"))
    writes = CaseStarted(decision=Decided(rule=0, do="continue", set_ctx={"k": 1}))

    def parts(*entries: Entry) -> list[int]:
        timed = tuple(Timed(0.0, entry) for entry in entries)
        whole = Report(order_id="o", execution_id="x", lease_epoch=1, worker_id="w", entries=timed)
        return [len(one.entries) for one in split_report(whole)]

    assert parts(*plain) == [MOST_ENTRIES, 1]
    assert parts(*plain[:MOST_ENTRIES]) == [MOST_ENTRIES]
    assert parts(*plain, failed) == [MOST_ENTRIES + 2]
    assert parts(*plain, writes) == [MOST_ENTRIES + 2]
