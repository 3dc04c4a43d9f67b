"""What SQLite alone must hold: the log cannot be changed, newer files are refused, migrations run once."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import BackendError, StoreUnwritableError
from noetl.events.executions import Final, PlaybookProcessed
from noetl.events.outcomes import Error
from noetl.events.steps import StepDone, StepFailed
from noetl.store.contract import ConflictError
from noetl.store.sqlite.database import QUERIES, known_migrations, refuse_others
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.commits import commit, event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "store.db"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET step = 'b'",
        "DELETE FROM event",
        "UPDATE event_batch SET payloads = '[]'",
        "DELETE FROM event_batch",
        "UPDATE event_key SET key = 'another'",
        "DELETE FROM event_key",
    ],
)
async def test_events_can_be_neither_changed_nor_deleted(path: Path, statement: str) -> None:
    store = SqliteStore.open(path)
    await store.commit([commit(event(1))])
    await store.close()

    database = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        database.execute(statement)
    database.close()


@pytest.mark.parametrize("name", QUERIES)
def test_placeholders_are_not_numbered(name: str) -> None:
    """Python 3.12 warns of ?1 with values in order, and 3.14 refuses it."""
    assert re.findall(r"\?\d", QUERIES[name]) == []


async def test_the_database_allows_one_end_per_execution_and_per_step_run(path: Path) -> None:
    """Enforced by a constraint, not by code (reliability.md, decision 4)."""
    store = SqliteStore.open(path)
    await store.commit([commit(event(1, payload=PlaybookProcessed(status=Final.COMPLETED)))])
    with pytest.raises(ConflictError):
        await store.commit([commit(event(2, payload=PlaybookProcessed(status=Final.FAILED)), after=1)])

    await store.commit([commit(event(1, execution_id="x2", payload=StepDone()))])
    with pytest.raises(ConflictError):
        await store.commit([commit(event(2, execution_id="x2", payload=StepDone()), after=1)])

    failed = event(2, execution_id="x2", payload=StepFailed(error=Error(kind="timeout", message="m")))
    with pytest.raises(ConflictError):
        await store.commit([commit(failed, after=1)])
    await store.close()


async def test_a_commit_is_there_when_the_file_is_opened_again(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit([commit(event(1))])
    await store.close()

    again = SqliteStore.open(path)

    assert await again.events("x1") == [event(1)]
    await again.close()


async def test_commits_are_flushed_to_the_disk(path: Path) -> None:
    store = SqliteStore.open(path)

    settings = {name: store._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}

    assert settings == {"journal_mode": "wal", "synchronous": 2}
    await store.close()


async def test_a_store_of_a_newer_version_is_refused_on_opening(path: Path) -> None:
    await SqliteStore.open(path).close()
    database = sqlite3.connect(path)
    database.execute("INSERT INTO migration VALUES (99, '0099_future', 'x')")
    database.commit()
    database.close()

    with pytest.raises(BackendError, match="newer noetl"):
        SqliteStore.open(path)


async def test_a_migration_changed_after_it_ran_is_refused(path: Path) -> None:
    await SqliteStore.open(path).close()
    database = sqlite3.connect(path)
    database.execute("UPDATE migration SET checksum = 'other' WHERE number = 1")
    database.commit()
    database.close()

    with pytest.raises(BackendError, match="another migration 1"):
        SqliteStore.open(path)


async def test_migrations_run_once_and_are_recorded_with_their_checksum(path: Path) -> None:
    await SqliteStore.open(path).close()
    await SqliteStore.open(path).close()

    database = sqlite3.connect(path)
    applied = database.execute("SELECT number, checksum FROM migration").fetchall()
    database.close()
    assert applied == [(one.number, one.checksum) for one in known_migrations()]


async def test_a_file_that_is_not_a_database_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, but long enough to be taken for one" * 20)

    with pytest.raises(BackendError, match=r"notes\.txt"):
        SqliteStore.open(path)


async def test_two_processes_can_open_one_file_and_the_slower_one_gets_a_conflict(path: Path) -> None:
    one, two = SqliteStore.open(path), SqliteStore.open(path)

    await one.commit([commit(event(1))])
    with pytest.raises(ConflictError):
        await two.commit([commit(event(1, event_id="mine"))])

    assert await two.events("x1") == [event(1)]
    await one.close()
    await two.close()


class _Overtaken:
    """A connection to a new file: another process makes its store there right after the first read."""

    def __init__(self, path: Path) -> None:
        self._path, self._connection, self._reads = path, sqlite3.connect(path), 0

    def execute(self, sql: str) -> sqlite3.Cursor:
        found = self._connection.execute(sql)
        rows = found.fetchall()
        self._reads += 1
        if self._reads == 1:
            asyncio.run(SqliteStore.open(self._path).close())
        return _rows(self._connection, rows)

    def close(self) -> None:
        self._connection.close()


def _rows(connection: sqlite3.Connection, rows: list[Any]) -> sqlite3.Cursor:
    """A cursor that gives what was read before the other process came."""
    return connection.execute("SELECT 1 WHERE ?", (bool(rows),))


@pytest.mark.req("SRV-12")
def test_a_new_file_that_another_process_initialises_meanwhile_is_used(tmp_path: Path) -> None:
    overtaken = _Overtaken(tmp_path / "s.db")

    refuse_others(overtaken, "s.db")  # type: ignore[arg-type]  # it has what is asked

    overtaken.close()


@pytest.mark.req("SRV-12")
async def test_a_full_store_is_logged_once_and_its_recovery_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore.open(tmp_path / "s.db")
    [pages] = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(3):
        with pytest.raises(StoreUnwritableError, match="cannot be written"):
            await store.key_values.put("kind", str(number), b"x" * 100_000, over=0, at=0.0)
        assert await store.key_values.get("kind", str(number)) is None  # a read that works is no room

    store._db.execute(f"PRAGMA max_page_count = {pages + 1_000}")
    await store.key_values.put("kind", "later", b"x" * 100_000, over=0, at=0.0)
    await store.key_values.put("kind", "last", b"x" * 100_000, over=0, at=0.0)

    assert [message.split(": ")[0].rpartition("s.db ")[2] for message in caplog.messages] == [
        "cannot be written",
        "can be written again",
    ]
    await store.close()
