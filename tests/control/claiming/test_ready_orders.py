"""Which order is next: by priority, then in turns between executions, then as they came (ADV-03, SRV-08)."""

from __future__ import annotations

from noetl.control.claiming.ready_orders import ReadyOrder, ReadyOrders
from tests.narrowing import present


def taken(orders: ReadyOrders, *pools: str) -> list[str]:
    found = []
    while (ready := orders.take(pools or None)) is not None:
        found.append(ready.order_id)
    return found


def filled(*readies: ReadyOrder) -> ReadyOrders:
    orders = ReadyOrders()
    for ready in readies:
        orders.add(ready)
    return orders


def test_a_higher_priority_is_claimed_first_across_executions() -> None:
    orders = filled(
        ReadyOrder("x", "x1"),
        ReadyOrder("x", "x2", priority=3),
        ReadyOrder("y", "y1", priority=3),
        ReadyOrder("y", "y2"),
    )

    assert taken(orders) == ["x2", "y1", "x1", "y2"]


def test_ten_thousand_orders_of_one_execution_do_not_starve_others() -> None:
    orders = filled(
        *(ReadyOrder("big", f"b{n}") for n in range(10_000)), ReadyOrder("small", "s1"), ReadyOrder("small", "s2")
    )

    assert [present(orders.take()).order_id for _ in range(4)] == ["b0", "s1", "b1", "s2"]
    assert len(orders) == 9_998


def test_pools_are_separate_and_take_turns() -> None:
    orders = filled(
        ReadyOrder("x", "a1", pool="a"),
        ReadyOrder("x", "a2", pool="a"),
        ReadyOrder("x", "b1", pool="b"),
        ReadyOrder("x", "c1"),
    )

    assert orders.counts == {"a": 2, "b": 1, "default": 1}
    assert taken(orders, "a", "b") == ["a1", "b1", "a2"]
    assert taken(orders) == ["c1"]
    assert orders.counts == {}


def test_an_order_is_offered_once_and_removed_with_its_execution() -> None:
    orders = filled(
        ReadyOrder("x", "x1"), ReadyOrder("x", "x1"), ReadyOrder("y", "y1", priority=1), ReadyOrder("y", "y2")
    )
    orders.lay_aside(ReadyOrder("y", "y3"))

    orders.forget(["y"])
    orders.offer_aside("y")

    assert orders.set_aside_count == 0
    assert taken(orders) == ["x1"]


def test_fresh_orders_are_counted_until_the_count_is_read() -> None:
    orders = filled(ReadyOrder("x", "x1"), ReadyOrder("x", "x2"), ReadyOrder("x", "g1", pool="gpu"))
    orders.take(["default"])

    assert orders.take_fresh() == {"default": 1, "gpu": 1}
    assert orders.take_fresh() == {}
