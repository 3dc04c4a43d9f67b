"""The audit log's promises, kept by every backend (reliability.md §3.9)."""

from __future__ import annotations

import asyncio

from noetl.store.audit import ORIGIN, AuditEntry, walked
from noetl.store.contract import Store
from noetl.store.postgres.store import PostgresStore
from tests.contracts.stores import fresh_url


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        at=float(number), actor="ann", action="POST /x", object=f"/x/{number}", address="::1", outcome="200"
    )


async def test_audit_rows_are_listed_in_both_orders(store: Store) -> None:
    await store.audit.append([entry(1), entry(2)])
    await store.audit.append([entry(3)])

    rows = await store.audit.onward(after=0)

    assert [(row.seq, row.object) for row in rows] == [(1, "/x/1"), (2, "/x/2"), (3, "/x/3")]
    assert [row.prev_hash for row in rows] == [ORIGIN, rows[0].hash, rows[1].hash]
    assert await store.audit.newest(limit=2) == [rows[2], rows[1]]
    assert await store.audit.newest(before=2) == [rows[0]]
    assert await store.audit.onward(after=1, limit=1) == [rows[1]]


async def test_concurrent_writers_make_one_audit_chain(store: Store) -> None:
    await asyncio.gather(*(store.audit.append([entry(number)]) for number in range(8)))

    walk = await walked(store.audit)

    assert (walk.rows, walk.broken_at) == (8, None)


async def test_two_servers_append_to_one_audit_chain() -> None:
    """Servers share a store: what one has seen as the end of the chain may not be it any more."""
    url = fresh_url()
    stores = [await PostgresStore.open(url) for _ in range(2)]
    try:
        writes = [store.audit.append([entry(number)]) for number in range(30) for store in stores]
        await asyncio.gather(*writes)
        walk = await walked(stores[0].audit)
    finally:
        for store in stores:
            await store.close()

    assert (walk.rows, walk.broken_at) == (60, None)
