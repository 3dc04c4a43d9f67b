"""Stores of earlier versions, rebuilt from their texts in `stores/`; `store_writing` describes their contents.

A name ends with the number of migrations there were then. The text of a SQLite store is whole; that of a store in
PostgreSQL holds its rows, and its tables come from the migrations of that day: the rows name their checksums, so one
that was changed since is refused.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.store.postgres.database import DEFAULT_SCHEMA, Database, address_of
from noetl.store.postgres.schema import known_migrations, migrate

FOLDER = Path(__file__).with_name("stores")
SQLITE = sorted(path.stem for path in FOLDER.glob("sqlite_*.sql"))
POSTGRES = sorted(path.stem for path in FOLDER.glob("postgres_*.sql"))
Rows = list[tuple[Any, ...]]
_SHOWN = (
    "execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema,"
    " payload"
)
ROW = "trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id, wake_at"
EVENTS = f"SELECT {_SHOWN} FROM event ORDER BY execution_id, seq"
ROWS = f"SELECT execution_id, {ROW} FROM execution ORDER BY execution_id"
RAW = "SELECT execution_id, seq, event_id, event_type, payload FROM event ORDER BY execution_id, seq"


def text_of(name: str) -> str:
    plain = FOLDER / f"{name}.sql"
    return plain.read_text("utf-8") if plain.exists() else gzip.decompress(_kept(f"{name}.sql.gz")).decode()


def answers_of(name: str) -> dict[str, Any]:
    """The views of the store by the version of that time, with the keys of `every_shape`."""
    answers: dict[str, Any] = json.loads(gzip.decompress(_kept(f"{name}.answers.json.gz")))
    return answers


def _kept(file: str) -> bytes:
    return (FOLDER / file).read_bytes()


def migrations_of(name: str) -> int:
    return int(name.rpartition("_")[2])


def make_file(name: str, path: Path) -> Rows:
    """Gives the events as they lie there."""
    made = sqlite3.connect(path)
    try:
        made.executescript(text_of(name))
        return made.execute(RAW).fetchall()
    finally:
        made.close()


async def make_schema(name: str, url: str) -> Rows:
    """The same in the schema that `url` names."""
    database = await Database.open(address_of(url))
    known = known_migrations()[: migrations_of(name)]
    assert known, "there are no migrations"
    try:
        await migrate(database, known)
        rows = text_of(name).replace(f"{DEFAULT_SCHEMA}.", f"{database.address.schema}.")

        async def fill(connection: Any) -> Rows:
            await connection.execute("DELETE FROM migration")
            await connection.execute(rows)
            return [tuple(row) for row in await connection.fetch(RAW)]

        return await database.run_in_transaction(fill)
    finally:
        await database.close()


def _hashed(rows: Iterable[Iterable[Any]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(list(row)).encode())
    return digest.hexdigest()


def _file_hash(path: Path) -> str:
    with closing(sqlite3.connect(path)) as file:
        return _hashed(file.execute(EVENTS)) + _hashed(file.execute(ROWS))


async def _schema_hash(url: str) -> str:
    """A page at a time: a large store is larger than memory."""
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        async with connection.transaction():
            found = []
            for statement in (EVENTS, ROWS):
                digest = hashlib.sha256()
                async for row in connection.cursor(statement, prefetch=1_000):
                    digest.update(json.dumps(list(row)).encode())
                found.append(digest.hexdigest())
            return "".join(found)
    finally:
        await connection.close()


def hash_of(db: str) -> str:
    """Of all events and executions, as SQL shows them."""
    return asyncio.run(_schema_hash(db)) if "://" in db else _file_hash(Path(db))
