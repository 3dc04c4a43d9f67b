"""Every backend of the store, opened fresh; a backend is what passes the suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg  # type: ignore[import-untyped]

from noetl.store.contract import Store
from noetl.store.memory import MemoryStore
from noetl.store.postgres.database import address_of
from noetl.store.postgres.store import PostgresStore
from noetl.store.sqlite.store import SqliteStore
from tests.servers.postgres import server

BACKENDS = ("memory", "sqlite", "postgres")
_DATABASE = "stores"
_FEW_ROWS = 2_000
_numbers = count(1)

_empty_schemas: list[str] = []
_new_shapes: list[str] = []  # one, once it is known

# The state of an unused store: all relations, triggers and functions, and the only two tables that have rows from the
# beginning.
_SHAPE = """
SELECT concat_ws(';',
    (SELECT string_agg(concat_ws(' ', relname, relkind, relnatts, relchecks, relhasindex), ',' ORDER BY relname)
       FROM pg_class WHERE relnamespace = current_schema::regnamespace),
    (SELECT string_agg(concat_ws(' ', relname, tgname, tgenabled), ',' ORDER BY relname, tgname)
       FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
      WHERE relnamespace = current_schema::regnamespace AND NOT tgisinternal),
    (SELECT string_agg(concat_ws(' ', proname, md5(prosrc)), ',' ORDER BY proname)
       FROM pg_proc WHERE pronamespace = current_schema::regnamespace),
    (SELECT string_agg(migration::text, ',' ORDER BY number) FROM migration),
    (SELECT string_agg(history_span::text, ',' ORDER BY suffix) FROM history_span))
"""
_FULL_FROM_THE_BEGINNING = ("migration", "history_span")
_RELATIONS = (
    "SELECT relname, relkind FROM pg_class WHERE relnamespace = current_schema::regnamespace AND relkind IN ('r', 'S')"
)


@cache
def _database() -> str:
    server().create(_DATABASE)
    return _DATABASE


def fresh_url() -> str:
    """The address of an empty store on this process's PostgreSQL: a schema of its own, cheaper than a database."""
    return _url(f"s{next(_numbers)}")


def _url(schema: str) -> str:
    options = urlencode({"host": server().socket, "search_path": schema})
    return f"postgresql://postgres@/{_database()}?{options}"


@asynccontextmanager
async def borrowed_url() -> AsyncIterator[str]:
    """The URL of a store that the test closes in the end: it is emptied then, for the next test. Creating a new one
    takes PostgreSQL ten times as long as opening it."""
    url = _url(_empty_schemas.pop()) if _empty_schemas else fresh_url()
    yield url
    # An error in the block does not come here: that store may still be in use.
    connection = await _connected(url)
    try:
        if await _shape(connection) == await _new_shape() and await _rows_deleted(connection) <= _FEW_ROWS:
            _empty_schemas.append(address_of(url).schema)
    finally:
        await connection.close()


async def _connected(url: str) -> Any:
    return await asyncpg.connect(**address_of(url).connect_arguments())


async def _shape(connection: Any) -> str:
    """Empty where a test has not come to open it, or has spoiled it."""
    with suppress(asyncpg.UndefinedTableError):
        return str(await connection.fetchval(_SHAPE))
    return ""


async def _new_shape() -> str:
    if not _new_shapes:
        store = await PostgresStore.open(url := fresh_url())
        await store.close()
        connection = await _connected(url)
        _new_shapes.append(await _shape(connection))
        await connection.close()
        _empty_schemas.append(address_of(url).schema)
    return _new_shapes[0]


async def _rows_deleted(connection: Any) -> int:
    """The number of deleted rows: they stay in the files, and many of them would slow down the next test."""
    relations = await connection.fetch(_RELATIONS)
    await connection.execute("SET session_replication_role = replica")  # without triggers: history is never deleted
    sequences = [f"ALTER SEQUENCE {name} RESTART" for name, kind in relations if kind == b"S"]
    await connection.execute(";".join(sequences))
    tables = [name for name, kind in relations if kind == b"r" and name not in _FULL_FROM_THE_BEGINNING]
    done = [await connection.execute(f"DELETE FROM {name}") for name in tables]
    return sum(int(status.rpartition(" ")[2]) for status in done)


@asynccontextmanager
async def opened(backend: str, folder: Path) -> AsyncIterator[Store]:
    store: Store
    async with AsyncExitStack() as stack:
        match backend:
            case "memory":
                store = MemoryStore()
            case "sqlite":
                store = SqliteStore.open(folder / "store.db")
            case "postgres":
                store = await PostgresStore.open(await stack.enter_async_context(borrowed_url()))
            case _:  # or a new name would pass the suite without being tried
                raise ValueError(f"nobody said how to open a {backend} store")
        try:
            yield store
        finally:
            await store.close()
