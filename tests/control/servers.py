"""Two servers on one store: each with a control plane and a connection of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from noetl.base.clock import ManualClock
from noetl.store.contract import Store
from noetl.store.memory import MemoryStore
from noetl.store.postgres.store import PostgresStore
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.stores import borrowed_url
from tests.control.control_plane import ControlPlane

BACKENDS = ("memory", "sqlite", "postgres")


@asynccontextmanager
async def connections(backend: str, folder: Path, number: int) -> AsyncIterator[list[Store]]:
    """So many connections to one and the same fresh store."""
    async with AsyncExitStack() as stack:
        stores: list[Store] = []
        url = await stack.enter_async_context(borrowed_url()) if backend == "postgres" else ""
        for _ in range(number):
            if backend == "memory":
                stores.append(stores[0] if stores else MemoryStore())
                continue
            store: Store
            store = SqliteStore.open(folder / "store.db") if backend == "sqlite" else await PostgresStore.open(url)
            stack.push_async_callback(store.close)
            stores.append(store)
        yield stores


@asynccontextmanager
async def servers(backend: str, folder: Path, number: int = 2) -> AsyncIterator[list[ControlPlane]]:
    clock = ManualClock()
    async with connections(backend, folder, number) as stores:
        yield [ControlPlane(store, shared=True, clock=clock) for store in stores]
