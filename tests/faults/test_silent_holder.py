"""A server that stops responding in the middle of a transaction holds its locks only briefly (reliability.md §4.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.store.audit import AuditEntry
from noetl.store.postgres import database
from noetl.store.postgres.database import QUERIES
from noetl.store.postgres.store import PostgresStore
from tests.contracts.stores import fresh_url

ENTRY = AuditEntry(at=1.0, actor="a", action="POST", object="/x", address="-", outcome="200")


@pytest.mark.req("SRV-12")
async def test_a_silent_lock_holder_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    url, held = fresh_url(), 0
    other = await PostgresStore.open(url)
    monkeypatch.setitem(database._SILENCE, "idle_in_transaction_session_timeout", "1s")
    silent = await PostgresStore.open(url)
    holds, speaks = asyncio.Event(), asyncio.Event()

    async def hold(connection: Any) -> None:
        nonlocal held
        held += 1
        await connection.execute(QUERIES["lock_audit"])
        holds.set()
        await speaks.wait()
        await connection.fetchval("SELECT 1")

    try:
        holding = asyncio.create_task(silent._db.run_in_transaction(hold))
        await holds.wait()
        async with asyncio.timeout(60):
            await other.audit.append([ENTRY])
        speaks.set()
        await holding
        assert held > 1, "nothing of it was stored: it is said again, by another connection"
    finally:
        await silent.close()
        await other.close()
