"""Wake-up times, and the order of claims: the same in every backend (TMR-06, SRV-08, ADV-03)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from noetl.store.contract import Commit, ConflictError, OrderRow, OrderState, PoolCapacity, Store
from tests.contracts.commits import commit, event


def waking(execution_id: str, wake_at: float | None, *, seq: int = 1) -> Commit:
    one = commit(event(seq, execution_id=execution_id), after=seq - 1)
    return msgspec.structs.replace(one, execution=msgspec.structs.replace(one.execution, wake_at=wake_at))


@pytest.mark.req("TMR-06")
async def test_due_alarms_are_listed_longest_overdue_first(store: Store) -> None:
    await store.commit([waking("x1", 30.0), waking("x2", 10.0), waking("x3", None), waking("x4", 20.0)])

    assert [row.execution_id for row in await store.due(now=20.0, limit=9)] == ["x2", "x4"]
    assert [row.execution_id for row in await store.due(now=99.0, limit=2)] == ["x2", "x4"]
    assert await store.due(now=9.9, limit=9) == []
    assert await store.next_due() == 10.0


@pytest.mark.req("TMR-06")
async def test_an_alarm_moves_with_its_execution_and_ends_when_nothing_is_due(store: Store) -> None:
    assert await store.next_due() is None
    await store.commit([waking("x1", 10.0)])
    await store.commit([waking("x1", 50.0, seq=2)])
    assert await store.next_due() == 50.0
    assert await store.due(now=49.0, limit=9) == []
    row = await store.execution("x1")
    assert row is not None
    assert row.wake_at == 50.0

    await store.commit([waking("x1", None, seq=3)])

    assert await store.next_due() is None
    assert await store.due(now=1e9, limit=9) == []


def order(number: int, *, pool: str = "default", priority: int = 0) -> OrderRow:
    return OrderRow(order_id=f"o{number}", execution_id="x1", step_run_id=f"r{number}", pool=pool, priority=priority)


def leased(one: OrderRow, *, epoch: int, until: float) -> OrderRow:
    about = {"state": OrderState.LEASED, "lease_owner": "w", "lease_epoch": epoch, "lease_until": until}
    return msgspec.structs.replace(one, **about)


async def claimable(store: Store, *, now: float = 0, limit: int = 9, pools: list[str] | None = None) -> list[str]:
    return [row.order_id for row in await store.claimable(now=now, limit=limit, pools=pools)]


@pytest.mark.req("SRV-08", "ADV-03")
async def test_the_most_urgent_order_is_claimed_first_and_then_the_oldest(store: Store) -> None:
    orders = (order(5), order(4), order(3, priority=7), order(2, priority=-1), order(1, priority=7))
    await store.commit([commit(event(1), orders=orders)])

    assert await claimable(store) == ["o3", "o1", "o5", "o4", "o2"]
    assert await claimable(store, limit=2) == ["o3", "o1"]
    assert await claimable(store, pools=["default"], limit=3) == ["o3", "o1", "o5"]


@pytest.mark.req("SRV-08")
async def test_a_worker_receives_orders_of_its_own_pools_only(store: Store) -> None:
    orders = (order(1, pool="gpu"), order(2), order(3, pool="gpu", priority=1), order(4, pool="big"))
    await store.commit([commit(event(1), orders=orders)])

    assert await claimable(store, pools=["gpu"]) == ["o3", "o1"]
    assert await claimable(store, pools=["gpu", "big", "gpu"]) == ["o3", "o1", "o4"]
    assert await claimable(store, pools=["none"]) == []
    assert await claimable(store, pools=[]) == []
    assert await claimable(store) == ["o3", "o1", "o2", "o4"]


async def test_an_order_with_an_expired_lease_is_offered_again_in_its_pool(store: Store) -> None:
    old, fresh = order(1, pool="gpu"), order(2, pool="gpu")
    held = order(3, pool="gpu", priority=9)
    orders = (leased(old, epoch=1, until=10.0), fresh, leased(held, epoch=1, until=90.0))
    await store.commit([commit(event(1), orders=orders)])

    assert await claimable(store, now=11.0, pools=["gpu"]) == ["o1", "o2"]
    assert await claimable(store, now=11.0, pools=["default"]) == []
    await store.commit([commit(event(2), after=1, orders=(leased(old, epoch=2, until=50.0),))])

    assert await claimable(store, now=11.0, pools=["gpu"]) == ["o2"]
    [row] = [row for row in await store.orders("x1") if row.order_id == "o1"]
    assert (row.pool, row.lease_epoch) == ("gpu", 2)


@pytest.mark.req("SRV-08")
async def test_leased_orders_are_counted_by_pool(store: Store) -> None:
    orders = (
        leased(order(1, pool="gpu"), epoch=1, until=50.0),
        leased(order(2, pool="gpu"), epoch=1, until=90.0),
        leased(order(3), epoch=1, until=90.0),
        order(4, pool="gpu"),
    )
    await store.commit([commit(event(1), orders=orders)])

    assert await store.leased(now=50.0) == {"gpu": 2, "default": 1}
    assert await store.leased(now=51.0, pools=["gpu", "big"]) == {"gpu": 1, "big": 0}


@pytest.mark.req("SRV-08")
async def test_concurrent_claims_never_exceed_the_capacity_of_a_pool(store: Store) -> None:
    def taking(number: int) -> Commit:
        row = msgspec.structs.replace(order(number, pool="gpu"), execution_id=f"x{number}")
        taken = (leased(row, epoch=1, until=90.0),)
        one = commit(event(1, execution_id=f"x{number}"), orders=taken)
        return msgspec.structs.replace(one, room=(PoolCapacity("gpu", 2, 10.0),))

    ended = await asyncio.gather(*(store.commit([taking(number)]) for number in range(6)), return_exceptions=True)

    assert sum(one is None for one in ended) == 2
    assert {type(one) for one in ended} == {ConflictError, type(None)}
    assert await store.leased(now=10.0, pools=["gpu"]) == {"gpu": 2}


async def test_the_store_returns_the_positions_of_known_executions(store: Store) -> None:
    await store.commit([commit(event(1)), commit(event(1, execution_id="x2"), event(2, execution_id="x2"))])

    assert await store.positions(["x1", "x2", "x3"]) == {"x1": 1, "x2": 2}
    assert await store.positions([]) == {}


async def test_the_store_returns_which_known_executions_are_open(store: Store) -> None:
    over = commit(event(1, execution_id="x2"))
    row = msgspec.structs.replace(over.execution, status="completed", finished_at=9.0)
    await store.commit([commit(event(1)), msgspec.structs.replace(over, execution=row)])

    assert await store.open_among(["x1", "x2", "x3"]) == {"x1"}
    assert await store.open_among([]) == set()
