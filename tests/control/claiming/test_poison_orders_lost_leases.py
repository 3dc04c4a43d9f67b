"""An order that loses one worker after another ends its step run, not the whole pool (reliability.md §3.3)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.commands import ClaimOrder, LoseOrder
from noetl.engine.reports import MOST_LEASES
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted
from noetl.events.orders import ReportResult
from noetl.events.outcomes import TaskResult
from noetl.events.steps import StepDone
from noetl.events.tasks import TaskStarted
from tests.control.control_plane import CHAIN, ControlPlane
from tests.engine_script import Conversation

LOOP = """
workflow:
  - step: start
    loop: {in: "{{ [1, 2, 3] }}", iterator: item, spec: {mode: parallel, max_in_flight: 1}}
    spec: {policy: {failure: {mode: MODE}}}
    tool: {kind: python, code: x}
    next: {arcs: [{step: b}]}
  - {step: b, tool: {kind: python, code: x}}
"""
TAKEN = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {arcs: [{step: rescue, when: "{{ event.name == 'step.failed' and event.error.kind == 'lease.lost' }}"}]}
  - {step: rescue}
"""


def lost(talk: Conversation, order_id: str, leases: int = MOST_LEASES) -> list[Any]:
    for epoch in range(leases):
        talk.tell(ClaimOrder(at=talk.clock.now(), order_id=order_id, worker_id=f"w{epoch}", seen_epoch=epoch))
    return talk.tell(LoseOrder(at=talk.clock.now(), order_id=order_id, seen_epoch=leases))


def test_a_step_with_a_lost_order_fails_with_lease_lost_and_its_arcs_can_handle_it() -> None:
    talk = Conversation(TAKEN)
    talk.start()

    lost(talk, talk.run("start").lease.order_id or "")

    assert talk.ran() == ["start", "rescue"]
    assert talk.status == "completed"
    [failed] = [event for event in talk.log if event.event_type == "step.failed"]
    assert failed.on_behalf


def test_an_unhandled_lost_order_fails_the_execution() -> None:
    talk = Conversation(CHAIN)
    talk.start()

    lost(talk, talk.run("start").lease.order_id or "")

    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.kind == "lease.lost"
    assert talk.execution.lifecycle.error.details == {"leases": 5, "outcome_unknown": False}


def test_the_error_names_the_time_when_the_last_worker_disappeared_during_a_task() -> None:
    talk = Conversation(CHAIN)
    talk.start()
    run = talk.run("start")
    assert run.lease.order_id is not None
    talk.claim("start")
    started = talk.task("start")[0]
    assert isinstance(started, TaskStarted)
    talk.report(talk.report_of("start", started))

    talk.tell(LoseOrder(at=talk.clock.now(), order_id=run.lease.order_id, seen_epoch=1))

    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.details is not None
    assert talk.execution.lifecycle.error.details["outcome_unknown"] is True


def test_each_iteration_of_a_lost_range_fails_once_and_others_are_unaffected() -> None:
    talk = Conversation(LOOP.replace("MODE", "best_effort"))
    talk.start()
    [order_id] = talk.execution.order_states.open

    lost(talk, order_id)

    iterations = IterationStarted | IterationDone | IterationFailed
    about = [(event.payload, event.on_behalf) for event in talk.log if isinstance(event.payload, iterations)]
    assert [(one.event_type, one.index, on_behalf) for one, on_behalf in about] == [
        ("loop.iteration.started", 0, True),
        ("loop.iteration.failed", 0, True),
    ]
    assert talk.status == "running"
    assert len(talk.execution.order_states.open) == 1, "the next range is handed out"


def test_a_lost_range_fails_a_fail_fast_loop() -> None:
    talk = Conversation(LOOP.replace("MODE", "fail_fast"))
    talk.start()
    [order_id] = talk.execution.order_states.open

    lost(talk, order_id)

    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert talk.execution.lifecycle.error.kind == "lease.lost"


def test_an_order_claimed_again_meanwhile_is_not_lost() -> None:
    talk = Conversation(CHAIN)
    talk.start()
    talk.claim("start")
    order_id = talk.run("start").lease.order_id or ""

    assert talk.decide(LoseOrder(at=0.0, order_id=order_id, seen_epoch=0)).verdict is ReportResult.FENCED
    talk.pause()
    assert talk.decide(LoseOrder(at=0.0, order_id=order_id, seen_epoch=1)).verdict is ReportResult.PAUSED
    talk.cancel()
    assert talk.decide(LoseOrder(at=0.0, order_id=order_id, seen_epoch=1)).verdict is ReportResult.TERMINAL


@pytest.mark.req("WRK-03", "O-06")
async def test_an_expired_lease_goes_to_another_worker_and_the_fifth_loss_ends_the_step() -> None:
    control_plane = ControlPlane(shared=True)
    sweep = control_plane.background_jobs.lost_work.sweep
    await control_plane.start()
    epochs: list[int] = []
    for _ in range(MOST_LEASES):
        [order] = (await control_plane.turn(worker_id=f"w{len(epochs)}")).orders
        epochs.append(order.lease_epoch)
        control_plane.clock.advance(31)
        await sweep()

    assert epochs == [1, 2, 3, 4, 5]
    assert (await control_plane.turn()).orders == ()
    row = await control_plane.store.execution("x1")
    assert row is not None
    assert row.status == "failed"
    assert await control_plane.store.orders("x1") == []


async def test_a_late_report_from_a_lost_lease_is_rejected() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start()
    stale = await control_plane.claim()
    control_plane.clock.advance(31)
    [order] = (await control_plane.turn(worker_id="w2")).orders

    late = await control_plane.turn(control_plane.done(stale), capacity=0)
    done = await control_plane.turn(
        control_plane.report(order, StepDone(result=TaskResult()), worker_id="w2"), capacity=0
    )

    assert order.order_id == stale.order_id
    assert late.verdicts == (ReportResult.FENCED,)
    assert done.verdicts == (ReportResult.ACCEPTED,)


async def test_orders_of_a_cancelled_execution_are_never_offered_again() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start()
    await control_plane.claim()
    await control_plane.executions.cancel("x1", "enough")
    control_plane.clock.advance(31)

    await control_plane.background_jobs.lost_work.sweep()

    assert (await control_plane.turn(worker_id="w2")).orders == ()
