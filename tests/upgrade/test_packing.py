"""The history of an earlier program, which is a row for each event, is packed when its store is opened: some executions
at a time, while it reads as ever, and from where it was when somebody was killed (docs/decisions/0016)."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from noetl.base.crash_points import VARIABLE
from noetl.events.envelope import Event
from noetl.store.open_store import open_store
from noetl.store.postgres.database import Database, address_of
from noetl.store.postgres.schema import known_migrations as known_to_postgres
from noetl.store.postgres.schema import migrate as migrate_schema
from noetl.store.sqlite.database import known_migrations, migrate, pack
from noetl.store.sqlite.history import SqliteHistory
from tests.contracts.stores import fresh_url
from tests.faults.processes import noetl
from tests.upgrade.goldens import make_file, make_schema

COPIES = 300  # of an execution of some twenty events: more than one transaction packs
STORES = pytest.mark.parametrize("kind", ["sqlite", "postgres"])
_EVENT = (
    "event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema, payload, checksum"
)
_ROW = "trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id, wake_at"
_NAMES = {
    "sqlite": "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    " SELECT 'copy' || i AS named FROM n",
    "postgres": "SELECT 'copy' || i AS named FROM generate_series(1, {}) AS i",
}


def _copying(kind: str) -> list[str]:
    """Statements that copy the execution which is over, as the program of that day would have written it."""
    names = _NAMES[kind].format(COPIES)
    row = _ROW.replace("name,", "execution.name,", 1)
    events = f"INSERT INTO event (execution_id, seq, {_EVENT}) SELECT c.named, seq, {_EVENT} FROM event"
    rows = f"INSERT INTO execution (execution_id, {_ROW}) SELECT c.named, {row} FROM execution"
    return [f"{insert} CROSS JOIN ({names}) AS c WHERE execution_id = 'over'" for insert in (events, rows)]


async def _asked(url: str, *statements: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        for statement in statements:
            rows = await connection.fetch(statement)
        return [tuple(row) for row in rows]
    finally:
        await connection.close()


def _asked_file(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            rows = file.execute(statement).fetchall()
        return rows


def _asked_store(db: str, *statements: str) -> list[tuple[Any, ...]]:
    return asyncio.run(_asked(db, *statements)) if "://" in db else _asked_file(Path(db), *statements)


def _large(kind: str, folder: Path) -> str:
    """A store of the version before, with many executions."""
    if kind == "sqlite":
        make_file("sqlite_0010", folder / "old.db")
        db = str(folder / "old.db")
    else:
        db = fresh_url()
        asyncio.run(make_schema("postgres_0009", db))
    _asked_store(db, *_copying(kind))
    return db


async def _logs(db: str) -> dict[str, list[Event]]:
    store, _ = await open_store(db)
    try:
        return {row.execution_id: await store.events(row.execution_id) for row in await store.executions(limit=1_000)}
    finally:
        await store.close()


SHOWN = "SELECT execution_id, seq, event_id, event_type, step, on_behalf FROM event ORDER BY execution_id, seq"
UNPACKED = "SELECT count(DISTINCT execution_id) FROM unpacked_event"


@STORES
@pytest.mark.req("SRV-12", "EVT-07")
def test_packing_that_was_killed_resumes_at_the_next_start_and_changes_no_event(kind: str, tmp_path: Path) -> None:
    db = _large(kind, tmp_path)
    before = _asked_store(db, SHOWN)
    assert len(before) > 5_000, "one transaction would do"

    killed = noetl("db", "migrate", "--db", db, cwd=tmp_path, environment={VARIABLE: "packing.within:2"})

    assert killed.code == -signal.SIGKILL, killed.stdout + killed.stderr
    [(left,)] = _asked_store(db, UNPACKED)
    assert 0 < left < COPIES, "some are packed, some are not"
    assert _asked_store(db, SHOWN) == before, "whoever looks sees them all"

    logs = asyncio.run(_logs(db))

    assert _asked_store(db, UNPACKED) == [(0,)]
    assert _asked_store(db, SHOWN) == before
    assert len(logs) == COPIES + 3
    assert sum(map(len, logs.values())) == len(before)
    checked = noetl("db", "check", "--db", db, cwd=tmp_path)
    assert checked.code == 0, checked.stdout


@pytest.mark.req("SRV-12")
async def test_unpacked_rows_read_the_same_as_packed_ones(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_file("sqlite_0010", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        migrate(file, known_migrations(), "old")
        history = SqliteHistory(file, "old")
        rows = {name: await history.events(name) for name in ("over", "timed", "held")}

        assert pack(file, at_once=1)

        assert {name: await history.events(name) for name in rows} == rows


@pytest.mark.req("SRV-12")
def test_other_writers_proceed_between_two_packing_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    make_file("sqlite_0010", path)
    pauses: list[float] = []

    def write(seconds: float) -> None:
        pauses.append(seconds)
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as another:
            another.execute("UPDATE execution SET wake_at = 7 WHERE execution_id = 'timed'")

    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        migrate(file, known_migrations(), "old")
        monkeypatch.setattr("noetl.store.sqlite.database.time.sleep", write)

        assert pack(file, at_once=1)

    assert len(pauses) == 3, "one after each of the three executions"
    assert all(pause > 0 for pause in pauses)


@STORES
@pytest.mark.req("SRV-12")
def test_the_previous_version_can_use_a_store_that_is_not_packed_yet(kind: str, tmp_path: Path) -> None:
    """The store is migrated, and nothing is packed: what it writes is a row as ever, and is packed with the others."""
    added = (
        "INSERT INTO event SELECT execution_id, seq + 1, 'added', 'token.enqueued', ts, source, NULL, NULL, NULL, NULL,"
        " on_behalf, schema, '{\"token_id\":\"t\"}', NULL FROM event WHERE execution_id = 'timed'"
        " ORDER BY seq DESC LIMIT 1"
    )
    db = _migrated(kind, tmp_path)

    _asked_store(db, added, "UPDATE execution SET last_seq = last_seq + 1 WHERE execution_id = 'timed'")

    [last] = _asked_store(db, "SELECT max(seq) FROM unpacked_event WHERE execution_id = 'timed'")
    logs = asyncio.run(_logs(db))
    assert (logs["timed"][-1].event_id, logs["timed"][-1].seq) == ("added", last[0])
    assert _asked_store(db, UNPACKED) == [(0,)]


def _migrated(kind: str, folder: Path) -> str:
    if kind == "sqlite":
        path = folder / "old.db"
        make_file("sqlite_0010", path)
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            migrate(file, known_migrations(), "old")
        return str(path)
    url = fresh_url()
    asyncio.run(make_schema("postgres_0009", url))
    asyncio.run(_migrate_schema(url))
    return url


async def _migrate_schema(url: str) -> None:
    database = await Database.open(address_of(url))
    try:
        await migrate_schema(database, known_to_postgres())
    finally:
        await database.close()


@STORES
@pytest.mark.req("EVT-01", "SRV-12")
def test_an_execution_with_a_missing_event_stays_unpacked_and_is_reported(kind: str, tmp_path: Path) -> None:
    db = _large(kind, tmp_path)
    trigger = "DROP TRIGGER event_is_never_deleted" + (" ON event" if kind == "postgres" else "")
    _asked_store(db, trigger, "DELETE FROM event WHERE execution_id = 'copy7' AND seq = 5")
    if kind == "postgres":
        _asked_store(
            db,
            "CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event FOR EACH ROW"
            " WHEN (stands(OLD.execution_id)) EXECUTE FUNCTION refuse_deletion()",
        )
    else:
        _asked_store(
            db,
            "CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event"
            " BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
        )

    logs = asyncio.run(_logs(db))

    assert 5 not in [event.seq for event in logs["copy7"]]
    assert len(logs["copy7"]) == len(logs["copy8"]) - 1
    assert _asked_store(db, UNPACKED) == [(1,)]
    checked = noetl("db", "check", "--db", db, cwd=tmp_path)
    assert checked.code == 1
    assert "copy7" in checked.stdout
