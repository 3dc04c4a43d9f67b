"""Stores as earlier programs left them, made anew from their texts in `stores/`; `store_writing` tells what they hold.

A name ends with the number of migrations there were then. The text of a SQLite store is whole; that of a store in
PostgreSQL holds its rows, and its tables come from the migrations of that day: the rows name their checksums, so one
that was changed since is refused.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from noetl.store.postgres.address import DEFAULT_SCHEMA, address_of
from noetl.store.postgres.database import Database
from noetl.store.postgres.migration import known_migrations, migrate

FOLDER = Path(__file__).with_name("stores")
SQLITE = sorted(path.stem for path in FOLDER.glob("sqlite_*.sql"))
POSTGRES = sorted(path.stem for path in FOLDER.glob("postgres_*.sql"))
Rows = list[tuple[Any, ...]]
RAW = "SELECT execution_id, seq, event_id, event_type, payload FROM event ORDER BY execution_id, seq"


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.sql").read_text("utf-8")


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
