"""Every backend of the store, opened fresh; a backend is what passes the suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from noetl.store.contract import Store
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore

BACKENDS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore.open(folder / "store.db"),
}
