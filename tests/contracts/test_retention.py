"""Deleting ended executions: completely, and never an open one; and the checksums that remaining rows refer to
(EVT-01)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.events.steps import CtxPatched
from noetl.store.contract import OrderState, Store
from noetl.store.waits import MessageRow
from tests.contracts.commits import commit, event, order

CHECKSUM, OTHER = "a" * 64, "b" * 64


async def ended(
    store: Store, execution_id: str, at: float | None, *, net: str = "h", parent: str | None = None
) -> None:
    named = {"big": {"$ref": {"store": "files", "key": "k", "checksum": CHECKSUM, "size": 3}}}
    patched = event(2, execution_id=execution_id, payload=CtxPatched(patch=named))
    one = commit(event(1, execution_id=execution_id), patched)
    row = msgspec.structs.replace(
        one.execution,
        finished_at=at,
        status="running" if at is None else "completed",
        net_hash=net,
        parent_execution_id=parent,
    )
    await store.commit([msgspec.structs.replace(one, execution=row)])


@pytest.mark.req("EVT-01")
async def test_expired_executions_are_listed_oldest_first(store: Store) -> None:
    await ended(store, "x1", 30.0)
    await ended(store, "x2", 10.0)
    await ended(store, "x3", 90.0)
    await ended(store, "x4", None)
    await ended(store, "x5", 10.0, net="other")

    assert await store.ended_nets() == ["h", "other"]
    assert await store.outlived("h", before=50.0, limit=9) == ["x2", "x1"]
    assert await store.outlived("h", before=50.0, limit=1) == ["x2"]


async def test_a_nested_execution_is_retained_while_its_parent_is_open(store: Store) -> None:
    await ended(store, "open", None)
    await ended(store, "over", 1.0)
    await ended(store, "c1", 2.0, parent="open")
    await ended(store, "c2", 3.0, parent="over")
    await ended(store, "c3", 4.0, parent="gone")

    assert await store.outlived("h", before=50.0, limit=9) == ["over", "c2", "c3"]


@pytest.mark.req("EVT-01")
async def test_executions_are_deleted_completely_and_open_ones_stay(store: Store) -> None:
    await ended(store, "x1", 1.0)
    await ended(store, "x2", None)
    await ended(store, "x3", 1.0)

    assert await store.retire(["x1", "x2", "x1", "unknown"]) == 1

    assert await store.events("x1") == []
    assert await store.execution("x1") is None
    assert [len(await store.events(one)) for one in ("x2", "x3")] == [2, 2]
    assert await store.tally() == {"running": 1, "completed": 1}
    assert await store.retire([]) == 0


async def test_a_deleted_execution_id_can_be_used_again(store: Store) -> None:
    await ended(store, "x1", 1.0)
    await store.retire(["x1"])
    await ended(store, "x1", 2.0)

    assert len(await store.events("x1")) == 2


async def test_checksums_in_events_and_messages_are_listed(store: Store) -> None:
    await ended(store, "x1", 1.0)
    payload = {"$ref": {"store": "files", "key": "k", "checksum": OTHER, "size": 3}}
    message = MessageRow(message_id="m", name="n", correlation={}, payload=payload, sent_at=1.0, expires_at=9.0)
    await store.waits.keep(message)

    assert await store.checksums() == {CHECKSUM, OTHER}
    await store.retire(["x1"])
    assert await store.checksums() == {OTHER}


async def test_unclaimed_orders_are_counted_by_pool(store: Store) -> None:
    await store.commit([commit(event(1), orders=(order(),))])
    assert await store.unclaimed(now=5.0) == {"default": 1}
    leased = order(OrderState.LEASED, 1, until=10.0)
    await store.commit([commit(event(2), after=1, orders=(leased,))])

    assert await store.unclaimed(now=5.0) == {}
    assert await store.unclaimed(now=11.0) == {"default": 1}


async def test_workers_with_expired_leases_are_listed_until_the_lease_is_renewed_or_released(store: Store) -> None:
    leased = order(OrderState.LEASED, 1, until=10.0)
    await store.commit([commit(event(1), orders=(leased,))])

    assert leased.lease_owner is not None
    assert await store.lapsed(now=10.0) == {}
    assert await store.lapsed(now=11.0) == {leased.lease_owner: 10.0}
    await store.renew(leased.order_id, lease_epoch=1, lease_until=20.0)
    assert await store.lapsed(now=11.0) == {}
    await store.renew(leased.order_id, lease_epoch=1, lease_until=0.0)
    assert await store.lapsed(now=11.0) == {}
    taken = order(OrderState.LEASED, 2, until=40.0)
    await store.commit([commit(event(2), after=1, orders=(taken,))])
    assert await store.lapsed(now=30.0) == {}
