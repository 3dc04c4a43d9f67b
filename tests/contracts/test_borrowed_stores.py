"""A PostgreSQL store that one test has used is like a new one for the next."""

from __future__ import annotations

import asyncpg  # type: ignore[import-untyped]

from noetl.store.postgres.database import address_of
from noetl.store.postgres.store import PostgresStore
from tests.contracts.commits import commit, event, order
from tests.contracts.stores import borrowed_url


async def _orders_made(url: str) -> list[int]:
    store = await PostgresStore.open(url)
    await store.commit([commit(event(1), orders=(order(),))])
    await store.close()
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    numbers = [row[0] for row in await connection.fetch("SELECT number FROM orders")]
    await connection.close()
    return numbers


async def test_a_borrowed_store_is_empty_and_counts_from_one() -> None:
    async with borrowed_url() as first:
        assert await _orders_made(first) == [1]

    async with borrowed_url() as second:
        assert second == first
        assert await _orders_made(second) == [1]


async def test_a_borrowed_store_with_changed_tables_is_not_reused() -> None:
    async with borrowed_url() as first:
        await _orders_made(first)
        connection = await asyncpg.connect(**address_of(first).connect_arguments())
        await connection.execute("ALTER TABLE notice DISABLE TRIGGER ALL; DROP TABLE task")
        await connection.close()

    async with borrowed_url() as second:
        assert second != first
