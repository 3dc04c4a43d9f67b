"""The control plane under control: pauses hold orders back, cancels stop them, requests are taken (SRV-07, SRV-11)."""

from __future__ import annotations

import asyncio

import pytest

from noetl.base.errors import BackendError, RefusedError
from noetl.control.outside import requests
from noetl.control.outside.requests import command_for, serve_requests, take
from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution
from noetl.events.control import PlaybookCancelled
from noetl.events.orders import ReportResult
from noetl.store.contract import ConflictError
from tests.control.control_plane import FORK, ControlPlane
from tests.narrowing import payloads, present


@pytest.mark.req("ADV-03")
async def test_orders_of_a_higher_priority_are_claimed_first() -> None:
    control_plane = ControlPlane()
    await control_plane.start(FORK)

    claimed = [(await control_plane.claim()).step for _ in range(3)]

    assert claimed == ["b", "c", "a"]


async def test_priorities_survive_a_restart() -> None:
    first = ControlPlane()
    await first.start(FORK)
    second = ControlPlane(first.store)
    await second.executions.take_up("x1", is_gone=lambda owner: True)

    assert [(await second.claim()).step for _ in range(3)] == ["b", "c", "a"]


@pytest.mark.req("SRV-07")
async def test_orders_of_a_paused_execution_are_held_back_until_it_is_resumed() -> None:
    control_plane = ControlPlane()
    await control_plane.start(FORK)
    await control_plane.claim()
    assert await control_plane.executions.control("x1", PauseExecution(at=1.0)) is ReportResult.ACCEPTED

    assert (await control_plane.turn(capacity=3)).orders == ()
    row = await control_plane.store.execution("x1")
    assert row is not None
    assert row.status == "paused"

    await control_plane.executions.control("x1", ResumeExecution(at=2.0))
    assert [one.step for one in (await control_plane.turn(capacity=3)).orders] == ["c", "a"]
    row = await control_plane.store.execution("x1")
    assert row is not None
    assert row.status == "running"


@pytest.mark.req("SRV-07", "SRV-12")
async def test_a_pause_survives_a_restart() -> None:
    first = ControlPlane()
    await first.start(FORK)
    await first.executions.control("x1", PauseExecution(at=1.0))
    second = ControlPlane(first.store)
    await second.executions.take_up("x1", is_gone=lambda owner: True)

    assert (await second.turn(capacity=3)).orders == ()
    await second.executions.control("x1", ResumeExecution(at=2.0))
    assert len((await second.turn(capacity=3)).orders) == 3


@pytest.mark.req("SRV-11")
async def test_the_worker_of_a_cancelled_execution_is_stopped() -> None:
    stopped = list[str]()
    control_plane = ControlPlane(stop=stopped.extend)
    await control_plane.start(FORK)
    order = await control_plane.claim()

    await control_plane.executions.control("x1", CancelExecution(at=1.0))

    assert order.order_id in stopped
    assert (await control_plane.turn(control_plane.done(order))).verdicts == (ReportResult.TERMINAL,)
    assert await control_plane.store.orders("x1") == []
    assert (await control_plane.executions.ended_execution("x1")).lifecycle.status == "cancelled"


async def test_an_order_that_its_own_report_ends_is_not_stopped() -> None:
    stopped = list[str]()
    control_plane = ControlPlane(stop=stopped.extend)
    await control_plane.start(FORK)
    order = await control_plane.claim()

    await control_plane.turn(control_plane.done(order), capacity=0)

    assert stopped == []


async def test_a_withdrawn_order_is_closed_in_the_store_and_its_report_is_refused() -> None:
    stopped = list[str]()
    control_plane = ControlPlane(stop=stopped.extend)
    await control_plane.start(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, tool: {kind: python, code: x}, next: {arcs: [{step: c, spec: {cancel: [b]}}]}}
  - {step: b, tool: {kind: python, code: x}}
  - {step: c, tool: {kind: python, code: x}}
"""
    )
    a, b = (await control_plane.turn(capacity=2)).orders
    await control_plane.turn(control_plane.done(a), capacity=0)

    assert stopped == [b.order_id]
    assert (await control_plane.turn(control_plane.done(b), capacity=0)).verdicts == (ReportResult.CANCELLED,)
    assert await control_plane.for_workers.renew("w1", {b.order_id: 1}) == {b.order_id}


async def test_a_pause_that_cannot_be_stored_has_no_effect() -> None:
    control_plane = ControlPlane()
    await control_plane.start(FORK)
    control_plane.store.broken = [BackendError("disk full")]
    with pytest.raises(BackendError):
        await control_plane.executions.control("x1", PauseExecution(at=1.0))

    assert len((await control_plane.turn(capacity=3)).orders) == 3


async def test_abandoned_orders_are_offered_again_if_a_claim_could_not_be_stored() -> None:
    first = ControlPlane()
    await first.start(FORK)
    await first.turn(capacity=3)
    second = ControlPlane(first.store)
    await second.executions.take_up("x1", is_gone=lambda owner: True)
    second.store.broken = [ConflictError("moved")]

    orders = (await second.turn(capacity=3, worker_id="w2")).orders

    assert [order.lease_epoch for order in orders] == [2, 2, 2]


@pytest.mark.req("SRV-07", "SRV-11")
async def test_requests_of_other_processes_are_handled_and_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "POLL_S", 0.001)
    control_plane = ControlPlane()
    await control_plane.start(FORK)
    asked = control_plane.store.requests
    pause = await asked.ask("x1", "pause", reason="look", at=1.0)
    again = await asked.ask("x1", "pause", reason=None, at=1.0)
    stranger = await asked.ask("x9", "cancel", reason=None, at=1.0)
    attending = asyncio.create_task(serve_requests(control_plane.executions, asked, control_plane.clock))

    async with asyncio.timeout(60):
        while len(await asked.pending()) > 1:
            await asyncio.sleep(0)
        cancel = await asked.ask("x1", "cancel", reason="enough", at=2.0)
        await control_plane.executions.ended_execution("x1")
        while len(await asked.pending()) > 1:
            await asyncio.sleep(0)
    attending.cancel()

    answers = {number: present(await asked.get(number)).answer for number in (pause, again, stranger, cancel)}
    assert answers == {pause: "accepted", again: "duplicate", stranger: None, cancel: "accepted"}
    assert [one.reason for one in payloads(control_plane.heard, PlaybookCancelled)] == ["enough"]


async def test_a_recorded_request_without_an_answer_has_no_second_effect() -> None:
    control_plane = ControlPlane()
    await control_plane.start(FORK)
    number = await control_plane.store.requests.ask("x1", "pause", reason=None, at=1.0)
    await control_plane.executions.control("x1", PauseExecution(at=1.0))
    request = await control_plane.store.requests.get(number)
    assert request is not None

    assert (
        await take(control_plane.executions, control_plane.store.requests, request, control_plane.clock)
        is ReportResult.DUPLICATE
    )
    assert [event.event_type for event in control_plane.heard].count("playbook.paused") == 1


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(RefusedError, match="allowed are pause, resume, cancel"):
        command_for("stop", at=1.0, reason=None)


@pytest.mark.req("SRV-11")
async def test_a_lost_lease_makes_a_process_read_decisions_of_another() -> None:
    first = ControlPlane()
    await first.start(FORK)
    order = await first.claim()
    second = ControlPlane(first.store)
    await second.executions.take_up("x1", is_gone=lambda owner: True)
    await second.executions.control("x1", CancelExecution(at=1.0))

    assert await first.for_workers.renew("w1", {order.order_id: 1}) == {order.order_id}

    async with asyncio.timeout(60):
        assert (await first.executions.ended_execution("x1")).lifecycle.status == "cancelled"
