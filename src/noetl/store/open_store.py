"""Opening a store by the name its user gave it: a file, a postgresql:// address, or nothing that outlives the process.

Large results lie in a folder beside the file, or in the user's data folder for a database; NOETL_RESULTS names another
folder, or an object store or a NATS broker by its URL. Drivers are imported when a store asks for them, not before.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from noetl.base.errors import BackendError, RefusedError
from noetl.base.settings import default_db, home, load_settings, results_folder
from noetl.store.contract import Records, ResultStore, Store
from noetl.store.sql_files import Applied

if TYPE_CHECKING:
    from noetl.store.postgres.store import PostgresStore

MEMORY = ":memory:"
# postgres//db, postgresql:/db, mysql://db, sqlite:///file
_NEARLY_ADDRESS = re.compile(r"(?:postgres\w*|pgsql|psql|pg)(?::|//)|[A-Za-z][\w+.-]*://", re.IGNORECASE)
_POSTGRES = ("postgresql://", "postgres://")


def is_database(db: str | Path | None) -> bool:
    """Whether this is the address of a database server and not a file."""
    return isinstance(db, str) and db.startswith(_POSTGRES)


def refuse_mistyped(db: str | Path | None) -> None:
    """RefusedError for a mistyped address: taken for a file name, it would create an empty store."""
    if not isinstance(db, str) or is_database(db) or not _NEARLY_ADDRESS.match(db):
        return
    shown = db.rpartition("@")[2] if "@" in db else db  # the text before it may be a password
    raise RefusedError(f'"{shown}" is neither a file nor postgresql://user@host/database: a store is one of them')


async def open_store(
    db: str | Path | None, results: str | None = None, *, reading_will_do: bool = False
) -> tuple[Store, ResultStore]:
    """The store and its results; None means the user's own file, and the default place for results. With
    `reading_will_do` a read-only file is opened as well, for reading."""
    refuse_mistyped(db)
    if str(db) == MEMORY:
        from noetl.store.memory import MemoryStore
        from noetl.store.results.files import MemoryResults

        return MemoryStore(), MemoryResults()
    kept = open_results(db, results)
    if isinstance(db, str) and is_database(db):
        return await _postgres().open(db), kept
    from noetl.store.sqlite.store import SqliteStore

    path = Path(db) if db is not None else default_db()
    return SqliteStore.open(path, reading_will_do=reading_will_do), kept


async def open_records(db: str | Path | None) -> Records:
    """Read-only access to the record of a store. BackendError when there is no store."""
    if isinstance(db, str) and is_database(db):
        _postgres()
        from noetl.store.postgres.history import PostgresHistory

        return await PostgresHistory.open(db)
    from noetl.store.sqlite.history import SqliteHistory

    return SqliteHistory.open(Path(db) if db is not None else default_db())


async def applied_migrations(db: str | Path | None) -> Applied:
    """Which migrations a store has and which it needs, without running any."""
    if isinstance(db, str) and is_database(db):
        _postgres()
        from noetl.store.postgres.history import PostgresHistory

        return await PostgresHistory.applied(db)
    from noetl.store.sqlite.history import SqliteHistory

    return SqliteHistory.applied(Path(db) if db is not None else default_db())


def open_results(db: str | Path | None, results: str | None = None) -> ResultStore:
    """The results store of a store: `results` if given, else that of the setting, else the default place of the
    store."""
    place = results or load_settings().settings.results
    # Each backend is imported only when it is chosen: an embedded run on a file must not load the drivers of the other
    # backends.
    if place is not None and place.startswith(("nats://", "tls://")):
        from noetl.store.results.nats_objects import NatsResults

        return NatsResults(place)
    if place is not None and "://" in place and not place.startswith("file://"):
        from noetl.store.results.remote import ObjectResults

        return ObjectResults(place)
    from noetl.store.results.files import FileResults

    return FileResults(_folder(place) if place else _own_folder(db))


def _folder(place: str) -> Path:
    """A folder, also one given as file://: our own files are synced, which an object store on a disk does not do."""
    path = unquote(urlsplit(place).path) if place.startswith("file://") else place
    return Path(path).expanduser()


def _own_folder(db: str | Path | None) -> Path:
    if is_database(db):
        return home() / "results"
    return results_folder(Path(db) if db is not None else default_db())


def _postgres() -> type[PostgresStore]:
    try:
        from noetl.store.postgres.store import PostgresStore
    except ImportError:
        raise BackendError('a store in PostgreSQL needs its driver: pip install "noetl-engine[postgres]"') from None
    return PostgresStore
