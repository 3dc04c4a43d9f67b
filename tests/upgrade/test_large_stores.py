"""A large store of the version before is migrated, and every view of it is what it was: all events by a hash of what
SQL shows, and what the commands tell of a sample (reliability.md §3.8)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from noetl.store.open_store import open_store
from noetl.store.postgres.database import address_of
from tests.contracts.stores import fresh_url
from tests.faults.processes import noetl
from tests.upgrade.goldens import POSTGRES, ROW, SQLITE, hash_of, make_file, make_schema

FEW, MANY = 30, 100_000
SAMPLE = 5
_NAMES = {
    "sqlite": "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    " SELECT printf('copy%06d', i) AS named FROM n",
    "postgres": "SELECT 'copy' || lpad(i::text, 6, '0') AS named FROM generate_series(1, {}) AS i",
}
_BATCH = "first_seq, last_seq, event_ids, types, envelopes, payloads, checksum"


def _copying(kind: str, number: int) -> list[str]:
    """Statements that copy the execution which is over, as the program of that day would have written it."""
    names, row = _NAMES[kind].format(number), ROW.replace("name,", "execution.name,", 1)
    copies = f"CROSS JOIN ({names}) AS c WHERE execution_id = 'over'"
    batches = f"SELECT c.named, {_BATCH} FROM event_batch {copies} ORDER BY c.named, first_seq"
    return [
        f"INSERT INTO execution (execution_id, {ROW}) SELECT c.named, {row} FROM execution {copies}",
        f"INSERT INTO event_batch (execution_id, {_BATCH}) {batches}",
    ]


async def _filled(url: str, number: int) -> None:
    await make_schema(POSTGRES[-1], url)
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        for statement in _copying("postgres", number):
            await connection.execute(statement)
    finally:
        await connection.close()


def _large(kind: str, folder: Path, number: int) -> str:
    """A store of the version before, with so many executions."""
    if kind == "postgres":
        asyncio.run(_filled(url := fresh_url(), number))
        return url
    make_file(SQLITE[-1], folder / "old.db")
    with closing(sqlite3.connect(folder / "old.db")) as file, file:
        for statement in _copying("sqlite", number):
            file.execute(statement)
    return str(folder / "old.db")


def _told(db: str, execution_id: str, folder: Path) -> list[Any]:
    """What commands tell of an execution, but for its id."""
    asked = [("status", "-o", "json"), ("events", "-o", "json"), ("result",)]
    texts = [noetl(*one, execution_id, "--db", db, cwd=folder) for one in asked]
    assert [one.code for one in texts] == [0] * len(asked), [one.stderr for one in texts]
    return [one.stdout.replace(execution_id, "ID") for one in texts]


async def _read(db: str, ids: Iterable[str]) -> list[list[tuple[Any, ...]]]:
    """The events of each as the program reads them, but for whose they are."""
    store, _ = await open_store(db)
    try:
        logs = [await store.events(one) for one in ids]
    finally:
        await store.close()
    return [[(e.seq, e.event_id, e.event_type, e.ts, e.parent_id, e.payload) for e in log] for log in logs]


@pytest.mark.req("SRV-12", "EVT-07")
@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=[pytest.mark.deep, pytest.mark.timeout(3_600)])])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_view_of_a_large_store_is_unchanged(kind: str, number: int, tmp_path: Path) -> None:
    db = _large(kind, tmp_path, number)
    before = hash_of(db)

    migrated = noetl("db", "migrate", "--db", db, cwd=tmp_path)

    assert migrated.code == 0, migrated.stderr
    assert hash_of(db) == before, "what SQL shows of all events and executions"
    sample = [f"copy{1 + at * (number - 1) // (SAMPLE - 1):06d}" for at in range(SAMPLE)]
    first, *others = asyncio.run(_read(db, ["over", *sample]))
    assert len(first) > 20
    assert all(one == first for one in others)
    assert _told(db, sample[0], tmp_path) == _told(db, sample[-1], tmp_path)
    listed = noetl("executions", "--db", db, "-o", "json", "--limit", "10", cwd=tmp_path)
    assert [one["status"] for one in listed.json()].count("completed") >= 8, listed.stdout
