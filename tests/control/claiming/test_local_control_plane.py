"""A worker in the server's process gets new orders in the commit that makes them ready (performance.md §2, SRV-05)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl.base.errors import BackendError
from noetl.events.orders import Order
from tests.control.control_plane import ControlPlane


class Hands:
    """A worker that takes as many as it is told to have room for."""

    def __init__(self, free: int) -> None:
        self.worker_id, self.free = "w1", free
        self.given: list[Order] = []

    def give(self, orders: Sequence[Order]) -> None:
        self.given += orders
        self.free -= len(orders)


@pytest.mark.req("SRV-05")
async def test_an_embedded_start_and_its_first_claim_are_one_commit() -> None:
    hands = Hands(free=1)
    control_plane = ControlPlane(local_worker=hands)

    await control_plane.start()

    assert [len(commits) for commits in control_plane.store.commits] == [1]
    [order] = hands.given
    assert (order.step, order.lease_epoch) == ("start", 1)
    assert [event.event_type for event in control_plane.heard][-2:] == ["token.claimed", "step.started"]


async def test_a_busy_local_worker_is_handed_nothing_and_claims_as_usual() -> None:
    hands = Hands(free=0)
    control_plane = ControlPlane(local_worker=hands)

    await control_plane.start()

    assert hands.given == []
    assert (await control_plane.claim()).step == "start"


@pytest.mark.req("SRV-05")
async def test_a_local_worker_receives_no_orders_of_a_failed_commit() -> None:
    hands = Hands(free=1)
    control_plane = ControlPlane(local_worker=hands)
    control_plane.store.broken.append(BackendError("the disk is full"))

    with pytest.raises(BackendError, match="disk is full"):
        await control_plane.start()

    assert hands.given == []
    await control_plane.start(execution_id="x2")
    assert [order.execution_id for order in hands.given] == ["x2"]


async def test_orders_made_ready_by_one_report_go_to_every_waiting_slot() -> None:
    """The slot that reports takes one itself; others would have to be woken and commit once more."""
    fork = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}, {step: d}]}
  - {step: b, tool: {kind: python, code: x}}
  - {step: c, tool: {kind: python, code: x}}
  - {step: d, tool: {kind: python, code: x}}
"""
    hands = Hands(free=0)
    control_plane = ControlPlane(local_worker=hands)
    await control_plane.start(fork)
    order = await control_plane.claim()
    hands.free, before = 5, len(control_plane.store.commits)

    answer = await control_plane.turn(control_plane.done(order))

    assert [one.step for one in answer.orders] == ["b"]
    assert [one.step for one in hands.given] == ["c", "d"]
    assert len(control_plane.store.commits) == before + 1
