"""Reading a file that another process writes: no waiting, no writing, one sentence when it cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from noetl.base.errors import BackendError
from noetl.events.envelope import Event
from noetl.store.sqlite.database import known_migrations, migrate
from noetl.store.sqlite.history import SqliteHistory
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.commits import commit, event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def test_readers_and_writers_do_not_block_each_other(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit([commit(event(1))])
    history = SqliteHistory.open(path)
    store._db.execute("BEGIN IMMEDIATE")

    seen = await history.events("x1")
    store._db.execute("ROLLBACK")
    history._db.execute("BEGIN")
    await history.events("x1")
    await store.commit([commit(event(2), after=1)])
    history._db.execute("COMMIT")

    assert len(seen) == 1
    assert len(await history.events("x1")) == 2
    await history.close()
    await store.close()


async def test_a_reader_cannot_write(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit([commit(event(1))])
    await store.close()

    history = SqliteHistory.open(path)

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        history._db.execute("DELETE FROM orders")
    await history.close()


def test_reading_creates_no_store(path: Path) -> None:
    with pytest.raises(BackendError, match="there is no store"):
        SqliteHistory.open(path)

    assert not path.exists()


@pytest.mark.parametrize("body", [b"", b"this is a text file, and quite a long one for that\n" * 40])
def test_a_file_that_is_not_a_store_is_refused(path: Path, body: bytes) -> None:
    path.write_bytes(body)

    with pytest.raises(BackendError, match="is not a NoETL store"):
        SqliteHistory.open(path)

    assert path.read_bytes() == body


async def events_read(path: Path) -> list[Event]:
    history = SqliteHistory.open(path)
    try:
        return await history.events("x1")
    finally:
        await history.close()


async def test_a_truncated_store_is_reported_in_one_sentence(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit([commit(*(event(seq) for seq in range(1, 400)))])
    await store.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])

    with pytest.raises(BackendError, match="damaged or cut short"):
        await events_read(path)


async def test_a_changed_event_is_reported(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit([commit(event(1))])
    store._db.execute("DROP TRIGGER event_batch_is_never_changed")
    store._db.execute("UPDATE event_batch SET payloads = '[{'")
    await store.close()

    with pytest.raises(BackendError, match="is damaged"):
        await events_read(path)


async def test_a_store_of_a_newer_version_is_refused_for_reading(path: Path) -> None:
    store = SqliteStore.open(path)
    store._db.execute("INSERT INTO migration VALUES (99, '0099_future', 'x')")
    await store.close()

    with pytest.raises(BackendError, match="written by a newer noetl"):
        SqliteHistory.open(path)


async def test_a_store_of_an_older_version_is_migrated(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        migrate(old, known_migrations()[:1], "old")

    history = SqliteHistory.open(path)

    assert len(history._db.execute("SELECT * FROM migration").fetchall()) == len(known_migrations())
    await history.close()


async def test_a_locked_store_is_reported_as_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.store.sqlite import history as module

    await SqliteStore.open(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA journal_mode = DELETE")
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(module, "_PATIENCE_MS", 1)

    with pytest.raises(BackendError, match="is locked by another program"):
        SqliteHistory.open(path)
    holder.close()
