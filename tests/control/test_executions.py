"""The shell around the engine: nothing takes effect before it is stored (SRV-05, design.md §3)."""

from __future__ import annotations

import pytest

from noetl.base.errors import BackendError, RefusedError
from noetl.engine.pipeline.progress import task_run_id
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Meta, Outcome, Status, TaskResult
from noetl.events.steps import StepDone
from noetl.events.tasks import Decided, TaskProcessed
from noetl.store.contract import ConflictError
from tests.control.control_plane import ControlPlane


@pytest.mark.req("SRV-05")
async def test_no_order_reaches_a_worker_if_its_decision_cannot_be_stored() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    heard = len(control_plane.heard)
    control_plane.store.broken = [BackendError("the store is read-only")]

    with pytest.raises(BackendError, match="read-only"):
        await control_plane.turn(control_plane.done(order))

    assert len(control_plane.heard) == heard, "nobody hears of events that are not stored"
    answer = await control_plane.turn(control_plane.done(order))
    assert [one.step for one in answer.orders] == ["b"], "once the store works, the same report is decided anew"


async def test_a_start_that_cannot_be_stored_leaves_no_execution() -> None:
    control_plane = ControlPlane()
    control_plane.store.broken = [BackendError("disk full")]

    with pytest.raises(BackendError):
        await control_plane.start()

    assert await control_plane.store.execution("x1") is None
    assert control_plane.heard == []


async def test_a_conflicting_decision_is_made_again_from_the_log() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    control_plane.store.broken = [ConflictError("moved"), ConflictError("moved")]

    answer = await control_plane.turn(control_plane.done(order))

    assert answer.verdicts == (ReportResult.ACCEPTED,)
    assert [one.step for one in answer.orders] == ["b"]
    assert [event.seq for event in await control_plane.store.events("x1")] == list(
        range(1, len(control_plane.heard) + 1)
    )


async def test_an_order_is_offered_again_if_its_claim_could_not_be_stored() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    control_plane.store.broken = [ConflictError("moved")]

    order = await control_plane.claim()

    assert order.lease_epoch == 1
    control_plane.store.broken = [BackendError("disk full")]
    with pytest.raises(BackendError):
        await control_plane.turn(control_plane.done(order))
    assert [one.step for one in (await control_plane.turn(control_plane.done(order))).orders] == ["b"]


async def test_a_worker_is_fenced_after_another_process_took_over_its_execution() -> None:
    """Two processes on one file: the log decides, whoever believes to own it."""
    first = ControlPlane()
    await first.start()
    stale = await first.claim()
    second = ControlPlane(first.store)
    await second.executions.take_up("x1", is_gone=lambda owner: True)
    [order] = (await second.turn(worker_id="w2")).orders
    await second.turn(second.done(order, worker_id="w2"), worker_id="w2", capacity=0)

    answer = await first.turn(first.done(stale))

    assert answer.verdicts == (ReportResult.FENCED,)


async def test_reporting_the_end_of_a_step_and_claiming_the_next_is_one_commit() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    before = len(control_plane.store.commits)

    answer = await control_plane.turn(control_plane.done(order))

    assert len(answer.orders) == 1
    assert len(control_plane.store.commits) == before + 1


async def test_a_claim_copies_the_scopes_and_later_writes_do_not_reach_it() -> None:
    control_plane = ControlPlane()
    await control_plane.start(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, tool: {kind: python, code: x}}
  - {step: b, tool: {kind: python, code: start + a}, next: {arcs: [{step: c}]}}
  - {step: c, tool: {kind: python, code: start + a + b}}
"""
    )
    a, b = (await control_plane.turn(capacity=2)).orders
    run_id = task_run_id(a.step_run_id, a.position)
    now = control_plane.clock.now()
    meta = Meta(attempt=1, started_at=now, finished_at=now, trace_id="t1", task_run_id=run_id)
    processed = TaskProcessed(
        task="a_task",
        visit=1,
        attempt=1,
        task_run_id=run_id,
        outcome=Outcome(status=Status.SUCCESS, meta=meta),
        decision=Decided(rule=0, do="continue", set_ctx={"k": {"deep": 1}}),
    )
    await control_plane.turn(control_plane.report(a, processed, StepDone(result=TaskResult(result=1))), capacity=0)

    assert b.ctx == {}
    assert b.results.keys() == {"start"}
    [c] = (await control_plane.turn(control_plane.done(b))).orders
    assert c.ctx == {"k": {"deep": 1}}
    assert c.results.keys() == {"start", "a", "b"}


@pytest.mark.req("WRK-03")
async def test_resuming_a_run_that_another_process_is_running_is_refused() -> None:
    first = ControlPlane()
    await first.start()
    await first.claim()
    second = ControlPlane(first.store)

    with pytest.raises(RefusedError, match=r"is being run by w1; its lease ends in 30 s"):
        await second.executions.take_up("x1", is_gone=lambda owner: False)

    second.clock.advance(31)
    await second.executions.take_up("x1", is_gone=lambda owner: False)
    [order] = (await second.turn(worker_id="w2")).orders
    assert order.lease_epoch == 2


async def test_resuming_an_unknown_run_is_refused() -> None:
    with pytest.raises(RefusedError, match="no execution x9"):
        await ControlPlane().executions.take_up("x9", is_gone=lambda owner: True)


@pytest.mark.req("WRK-03")
async def test_a_worker_cannot_renew_the_lease_of_another() -> None:
    """An order whose holder is gone would wait for as long as the other goes on."""
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    control_plane.clock.advance(20)

    assert await control_plane.for_workers.renew("w2", {order.order_id: 1}) == {order.order_id}
    control_plane.clock.advance(20)
    assert len(await control_plane.store.claimable(now=control_plane.clock.now(), limit=9)) == 1


async def test_renewing_reports_the_leases_that_were_lost() -> None:
    control_plane = ControlPlane()
    await control_plane.start()
    order = await control_plane.claim()
    control_plane.clock.advance(20)

    lost = await control_plane.for_workers.renew("w1", {order.order_id: 1, "gone": 1})

    assert lost == {"gone"}
    control_plane.clock.advance(20)
    assert await control_plane.store.claimable(now=control_plane.clock.now(), limit=9) == []


async def test_waiting_for_an_ended_execution_returns_at_once() -> None:
    control_plane = ControlPlane()
    await control_plane.start("workflow: [{step: start}]")

    execution = await control_plane.executions.ended_execution("x1")

    assert execution.lifecycle.status == "completed"
