"""Opening a store by the name its user gave it: a file, or nothing that outlives the process."""

from __future__ import annotations

from pathlib import Path

from noetl.settings import default_db, results_folder
from noetl.store.contract import Results, Store

MEMORY = ":memory:"


def open_store(db: str | Path | None) -> tuple[Store, Results]:
    """The store and its results; None is the user's own file."""
    if str(db) == MEMORY:
        from noetl.store.memory import MemoryStore
        from noetl.store.results import MemoryResults

        return MemoryStore(), MemoryResults()
    from noetl.store.results import FileResults
    from noetl.store.sqlite.store import SqliteStore

    path = Path(db) if db is not None else default_db()
    return SqliteStore.open(path), FileResults(results_folder(path))
