"""Every backend of the store, opened fresh; a backend is what passes the suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

from noetl.store.contract import Store
from noetl.store.memory import MemoryStore
from noetl.store.postgres.store import PostgresStore
from noetl.store.sqlite.store import SqliteStore
from tests.servers.postgres import server

BACKENDS = ("memory", "sqlite", "postgres")
_DATABASE = "stores"
_numbers = count(1)


@cache
def _database() -> str:
    server().ask(f"CREATE DATABASE {_DATABASE}")
    return _DATABASE


def fresh_url() -> str:
    """The address of an empty store on this process's PostgreSQL: a schema of its own, cheaper than a database."""
    options = urlencode({"host": server().socket, "search_path": f"s{next(_numbers)}"})
    return f"postgresql://postgres@/{_database()}?{options}"


@asynccontextmanager
async def opened(backend: str, folder: Path) -> AsyncIterator[Store]:
    store: Store
    match backend:
        case "memory":
            store = MemoryStore()
        case "sqlite":
            store = SqliteStore.open(folder / "store.db")
        case "postgres":
            store = await PostgresStore.open(fresh_url())
        case _:  # or a new name would pass the suite without being tried
            raise ValueError(f"nobody said how to open a {backend} store")
    try:
        yield store
    finally:
        await store.close()
