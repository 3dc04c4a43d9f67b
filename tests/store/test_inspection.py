"""State tables are derived: emptied, they are told anew from the log (EVT-01)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from noetl.events.orders import ReportResult
from noetl.store.contract import OrderState, Store
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from tests.store.stored_world import World, rows


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "store.db")
    yield opened
    await opened.close()


def empty(store: Store) -> None:
    if isinstance(store, MemoryStore):
        store._executions.clear()
        store._orders.clear()
    else:
        assert isinstance(store, SqliteStore)
        store._db.execute("DELETE FROM orders")
        store._db.execute("DELETE FROM execution")


@pytest.mark.req("EVT-01")
async def test_emptied_sqlite_tables_are_rebuilt_from_the_log(store: Store) -> None:
    await World(store).make()
    before = await rows(store)
    assert {row.status for row in before[0]} == {"running", "paused", "cancelled"}
    assert {order.state for order in before[1]} == {OrderState.READY, OrderState.LEASED}
    empty(store)

    assert await store.rebuild() == 4

    assert await rows(store) == before


@pytest.mark.req("EVT-01", "WRK-03")
async def test_a_rebuilt_lease_can_be_renewed_or_taken_over_and_its_epoch_still_fences(store: Store) -> None:
    world = World(store)
    await world.start("x1")
    order = await world.claim()

    await store.rebuild()

    [row] = await store.claimable(now=world.clock.now(), limit=5)
    assert (row.order_id, row.lease_owner, row.lease_epoch) == (order.order_id, "w1", 1)
    assert not await store.renew(order.order_id, lease_epoch=2, lease_until=world.clock.now() + 9)
    assert await store.renew(order.order_id, lease_epoch=1, lease_until=world.clock.now() + 9)
    assert not await store.claimable(now=world.clock.now(), limit=5)
    assert await world.done(order) is ReportResult.ACCEPTED


async def test_rebuilding_intact_tables_changes_nothing_and_an_empty_store_stays_empty(store: Store) -> None:
    assert await store.rebuild() == 0
    await World(store).make()
    before = await rows(store)

    await store.rebuild()

    assert await rows(store) == before


@pytest.mark.req("EVT-01")
async def test_a_failed_rebuild_changes_nothing_in_sqlite(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db")
    await World(store).make()
    before = await rows(store)
    store._db.execute("CREATE TRIGGER broken BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'no'); END")

    with pytest.raises(Exception, match="no"):
        await store.rebuild()

    assert await rows(store) == before
    await store.close()


@pytest.mark.req("EVT-01")
@pytest.mark.parametrize(
    "statement", ["UPDATE event SET payload = '{}'", "DELETE FROM event", "UPDATE event SET seq = seq + 100"]
)
async def test_the_log_of_a_run_cannot_be_changed(tmp_path: Path, statement: str) -> None:
    store = SqliteStore.open(tmp_path / "store.db")
    await World(store).make()

    with pytest.raises(sqlite3.IntegrityError, match="never"):
        store._db.execute(statement)
    await store.close()
