"""Orders that a worker cannot run are passed over without being lost, or looked at again and again (SRV-08)."""

from __future__ import annotations

import asyncio

import pytest

from noetl.control.claiming.orders import WorkerAbilities
from noetl.control.claiming.ready_orders import ReadyOrder, ReadyOrders
from tests.control.control_plane import ControlPlane

PYTHON, BOTH = frozenset({"python"}), frozenset({"python", "duckdb"})


def filled() -> ReadyOrders:
    """Two orders of one execution that need both, and one of another pool of which nothing is known."""
    orders = ReadyOrders()
    for order_id in ("a", "b"):
        orders.learn(order_id, BOTH)
        orders.add(ReadyOrder("x", order_id))
    orders.add(ReadyOrder("x", "c", pool="other"))
    return orders


def test_an_order_is_offered_only_to_workers_with_all_its_kinds() -> None:
    orders = filled()

    assert orders.take(kinds=PYTHON) == ReadyOrder("x", "c", pool="other")
    assert orders.take(kinds=PYTHON) is None
    assert orders.take(kinds=BOTH) == ReadyOrder("x", "a")
    assert orders.take(kinds=None) == ReadyOrder("x", "b"), "who does not say what it runs is shown everything"
    assert len(orders) == 0


def test_a_pool_without_runnable_orders_looks_empty_to_a_worker() -> None:
    orders = filled()

    assert orders.pools_for(PYTHON) == {"other"}
    assert orders.pools_for(BOTH) == {"default", "other"}
    assert orders.counts == {"default": 2, "other": 1}, "they are there all the same"
    assert orders.needed == {("default", BOTH): 2}


def test_forgetting_an_execution_removes_its_empty_queues() -> None:
    orders = filled()
    orders.forget(["x"])

    assert orders.needed == {}
    assert orders.counts == {}
    assert orders.pools_for(BOTH) == set()
    orders.add(ReadyOrder("x", "a"))
    assert orders.take(kinds=PYTHON) is None, "what it needs is still known"


def test_a_higher_priority_is_claimed_first_among_runnable_orders() -> None:
    orders = ReadyOrders()
    orders.learn("high", BOTH)
    orders.add(ReadyOrder("x", "low"))
    orders.add(ReadyOrder("y", "high", priority=5))

    assert [orders.take(kinds=PYTHON), orders.take(kinds=PYTHON)] == [ReadyOrder("x", "low"), None]
    orders.add(ReadyOrder("x", "low"))
    assert orders.take(kinds=BOTH) == ReadyOrder("y", "high", priority=5)


@pytest.mark.parametrize(
    ("labels", "required", "carries"),
    [
        ({}, {}, True),
        ({"gpu": "yes"}, {}, True),
        ({"gpu": "yes", "zone": "a"}, {"gpu": "yes"}, True),
        ({"gpu": "no"}, {"gpu": "yes"}, False),
        ({"gpu": "yes"}, {"gpu": "yes", "zone": "a"}, False),
    ],
)
def test_a_worker_needs_every_label_with_its_value(
    labels: dict[str, str], required: dict[str, str], carries: bool
) -> None:
    assert WorkerAbilities(labels=labels).carries(required) is carries


async def test_a_suspect_order_waits_for_a_worker_that_can_run_it() -> None:
    """An order that was lost with two workers goes out alone; one who cannot run it does not stand in its way."""
    able = {"able": WorkerAbilities(kinds=PYTHON), "other": WorkerAbilities(kinds=frozenset({"http"}))}
    control_plane = ControlPlane(shared=True, ability_of=lambda worker_id: able[worker_id])
    await control_plane.start()
    for _ in range(2):
        assert len((await control_plane.turn(worker_id="able")).orders) == 1
        control_plane.clock.advance(31)  # nobody has heard of it, and its lease is over

    for _ in range(3):
        assert (await control_plane.turn(worker_id="other")).orders == ()
    [order] = (await control_plane.turn(worker_id="able")).orders
    assert (order.step, order.lease_epoch) == ("start", 3)


async def test_an_in_process_worker_receives_orders_that_others_cannot_run() -> None:
    """Whoever cannot run an order does not keep it from whoever comes next, in the same round or later."""
    able = {"able": WorkerAbilities(kinds=PYTHON), "other": WorkerAbilities(kinds=frozenset({"http"}))}
    control_plane = ControlPlane(shared=True, ability_of=lambda worker_id: able[worker_id])
    for number in range(5):
        await control_plane.start(execution_id=f"x{number}")

    left, taken = await asyncio.gather(
        control_plane.turn(worker_id="other", capacity=5), control_plane.turn(worker_id="able", capacity=5)
    )
    assert left.orders == ()
    assert len(taken.orders) == 5
    assert control_plane.assembly.decisions.ready.needed == {}
