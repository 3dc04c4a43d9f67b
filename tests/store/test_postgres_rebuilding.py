"""State tables in PostgreSQL are derived: emptied, they are told anew from the log (EVT-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from noetl.base.errors import BackendError
from noetl.events.orders import ReportResult
from noetl.store.postgres.store import PostgresStore
from tests.contracts.stores import fresh_url
from tests.store.stored_world import World, rows


@pytest_asyncio.fixture
async def store() -> AsyncIterator[PostgresStore]:
    opened = await PostgresStore.open(fresh_url())
    yield opened
    await opened.close()


async def did(store: PostgresStore, statement: str) -> None:
    await store._db.write(lambda connection: connection.execute(statement))


@pytest.mark.req("EVT-01", "EVT-07")
async def test_emptied_postgres_tables_are_rebuilt_from_the_log(store: PostgresStore) -> None:
    await World(store).make()
    before = await rows(store)
    await did(store, "DELETE FROM orders; DELETE FROM execution; DELETE FROM wait; DELETE FROM task")

    assert await store.rebuild() == 4

    assert await rows(store) == before


@pytest.mark.req("EVT-01", "WRK-03")
async def test_a_rebuilt_lease_can_be_renewed_and_its_epoch_still_fences(store: PostgresStore) -> None:
    world = World(store)
    await world.start("x1")
    order = await world.claim()

    await store.rebuild()

    assert not await store.renew(order.order_id, lease_epoch=2, lease_until=world.clock.now() + 9)
    assert await store.renew(order.order_id, lease_epoch=1, lease_until=world.clock.now() + 9)
    assert await world.done(order) is ReportResult.ACCEPTED


@pytest.mark.req("EVT-01")
async def test_a_failed_rebuild_changes_nothing_in_postgres(store: PostgresStore) -> None:
    await World(store).make()
    before = await rows(store)
    await did(store, "ALTER TABLE orders ADD CONSTRAINT broken CHECK (false) NOT VALID")

    with pytest.raises(BackendError, match="broken"):
        await store.rebuild()

    assert await rows(store) == before


async def test_a_commit_during_a_rebuild_waits_and_is_stored(store: PostgresStore) -> None:
    world = World(store)

    async def starting() -> None:
        for number in range(30):
            await world.start(f"y{number}")

    writer = asyncio.create_task(starting())
    while not writer.done():
        await store.rebuild()
    await writer

    before = await rows(store)
    assert len(before[0]) == 30
    assert await store.rebuild() == 30
    assert await rows(store) == before
