"""Reading a store in SQLite: events, executions, orders and nets as they were committed.

`SqliteHistory.open` returns a connection that cannot write. In WAL mode readers and the process that runs an execution
do not wait for each other, so other terminals may read as often as they like.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

import msgspec

from noetl.base.errors import AbsentError, BackendError, Outage, StoreUnwritableError, UnfitError, UnreadableError
from noetl.events.envelope import Event
from noetl.store.contract import EventFilter, ExecutionQuery, ExecutionRow, MovedExecutions, OrderRow
from noetl.store.event_batches import batch_events, picked, picked_events
from noetl.store.installation import CatalogRow, KeyValues
from noetl.store.row_codecs import event_of, execution_of, lowered, order_of, struct_of
from noetl.store.sql_files import Applied, applied_of
from noetl.store.sqlite import database
from noetl.store.sqlite.installation import SqliteKeyValues

_PATIENCE_MS = 2_000  # a reader waits only while the file itself is being recovered
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
# The disk cannot be read. Freeing space does not help then, unlike with the errors above.
_UNREADABLE = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
    sqlite3.SQLITE_IOERR_DATA,
)
# An event has the time of its decision, and others see it after the commit. A minute is longer than any commit takes.
_ENDED_LATE_S = 60.0
_log = logging.getLogger(__name__)


class SqliteHistory(database.SqliteQueries):
    """The record in one file. `SqliteStore` adds writing."""

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        self._db = connection
        self._where = where
        # The device and inode of the file when it was opened for writing. None for a reader, which may continue with a
        # file that was replaced.
        self._file: tuple[int, int] | None = None
        self._outage = Outage(_log, f"the store {where} cannot be written", f"the store {where} can be written again")
        self.key_values: KeyValues = SqliteKeyValues(connection, self._explained)

    @classmethod
    def open(cls, path: Path) -> SqliteHistory:
        """Open for reading. BackendError when there is no store, or none that this program can read."""
        if not path.exists():
            raise BackendError(f"there is no store {path}: run a playbook first, or name another file with --db")
        history = cls(reading_connection(path), str(path))
        try:
            with history._explained():
                history._db.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
                if not database.is_store(history._db):
                    raise BackendError(f"{path} is not a NoETL store: name another file with --db")
                if not database.is_up_to_date(history._db, database.known_migrations(), str(path)):
                    _renew(path)
        except BaseException:
            history._db.close()
            raise
        return history

    @classmethod
    def applied(cls, path: Path) -> Applied:
        """The migrations of a store, without changing it. BackendError when there is no store, or the file is another
        program's."""
        if not path.exists():
            raise BackendError(f"there is no store {path}")
        history = cls(reading_connection(path), str(path))
        try:
            with history._explained():
                database.refuse_others(history._db, str(path))
                done = database.applied(history._db) if database.is_store(history._db) else []
                return applied_of(done, database.known_migrations(), str(path))
        finally:
            history._db.close()

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        with self._explained(), damage_as_unreadable(execution_id):
            # Rows first, then batches: a process that packs rows into batches does so in one transaction, so the events
            # are in one of the two.
            rows = self._db.execute(database.QUERIES["select_rows"], (execution_id, after)).fetchall()
            if rows:
                return picked_events([event_of(execution_id, row) for row in rows], only)
            # For the newest events, batches are read from the end: the last ten events of a long log must not cost a
            # read of all.
            query = database.QUERIES["select_newest_batches" if only is not None and only.newest else "select_batches"]
            found = self._db.execute(query, (execution_id, after))
            batches = (batch_events(execution_id, row, after=after, only=only) for row in found)
            return picked(batches, only)

    async def execution(self, execution_id: str) -> ExecutionRow | None:
        row = self._row("select_execution", (execution_id,))
        return execution_of(row) if row else None

    async def positions(self, execution_ids: Collection[str]) -> dict[str, int]:
        return dict(self._rows("select_positions", (json.dumps(list(execution_ids)),)))

    async def open_among(self, execution_ids: Collection[str]) -> set[str]:
        rows = self._rows("select_open_among", (json.dumps(list(execution_ids)),))
        return {row[0] for row in rows}

    async def executions(
        self, *, limit: int = 50, beyond: str | None = None, **wanted: Unpack[ExecutionQuery]
    ) -> list[ExecutionRow]:
        text, labels = wanted.get("text"), wanted.get("labels")
        values = {
            "status": wanted.get("status"),
            "path": wanted.get("path"),
            "beyond": beyond,
            "limit": limit,
            "since": wanted.get("since"),
            "until": wanted.get("until"),
            "text": None if text is None else lowered(text),
            "labels": json.dumps(dict(labels)) if labels else None,
            "error": wanted.get("error"),
            "step": wanted.get("step"),
        }
        return self._decoded(execution_of, "select_executions", values)

    async def moved(self, since: str | None) -> MovedExecutions:
        """If any process has written: all open executions, and those that ended recently. One file has few writers, so
        that is cheap enough. Ends are repeated for a minute, since an end may be committed after later ones."""
        with self._explained():
            # `data_version` changes with commits of other connections, `total_changes` with our own.
            [version] = self._db.execute("PRAGMA data_version").fetchone()
            here = f"{version}.{self._db.total_changes}"
            before, _, last_end = (since or "").partition("/")
            if since is not None and before == here:
                return MovedExecutions(since)
            last = self._db.execute(database.QUERIES["select_last_end"]).fetchone()[0]
            cursor = f"{here}/{last or 0.0!r}"
            if since is None:
                return MovedExecutions(cursor)
            late = _number(last_end) - _ENDED_LATE_S
            return MovedExecutions(cursor, dict(self._db.execute(database.QUERIES["select_moved"], (late,)).fetchall()))

    async def registered(self, path: str) -> set[str] | None:
        return {struct_of(CatalogRow, row).net_hash for row in self._rows("select_versions", (path,))}

    async def children(self, execution_id: str) -> list[ExecutionRow]:
        return self._decoded(execution_of, "select_children", (execution_id,))

    async def tally(self) -> dict[str, int]:
        return dict(self._rows("tally_executions"))

    async def begin_with(self, prefix: str, *, limit: int = 10) -> list[str]:
        rows = self._rows("select_ids", (prefix, len(prefix), prefix, limit))
        return [execution_id for (execution_id,) in rows]

    async def orders(self, execution_id: str) -> list[OrderRow]:
        return self._decoded(order_of, "select_orders", (execution_id,))

    async def net(self, net_hash: str) -> bytes:
        row = self._row("select_net", (net_hash,))
        if row is None:
            raise AbsentError(f"no net {net_hash} in the store {self._where}")
        return bytes(row[0])

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self._explained():
            return self._db.execute(statement).fetchall()

    async def hazards(self) -> list[str]:
        return []  # every connection that writes sets what it needs

    async def close(self) -> None:
        self._db.close()

    def _explained(self) -> _Explained:
        return _Explained(self)

    def _changes_before(self) -> int | None:
        """How many rows were changed when a statement begins, if the store cannot be written at present."""
        # Only during an outage: this is called for every statement.
        changes = self._db.total_changes if self._outage.is_on else None
        if self._file is not None and file_identity(self._where) != self._file:
            raise self._removed_file_error()
        return changes

    def _worked(self, changes: int) -> None:
        # Reads succeed during the outage too. Only a committed change shows that it is over.
        if self._db.total_changes > changes and not self._db.in_transaction:
            self._outage.worked()

    def _error(self, problem: BaseException) -> BackendError | UnfitError | None:
        """Our own error for an error of SQLite; it names the file."""
        match problem:
            case sqlite3.Error() if not _is_unwritable(problem):
                return BackendError(_explanation(self._where, problem))
            case sqlite3.Error():
                # Only where a log is configured: a command of the CLI prints the error below instead.
                if _log.hasHandlers():
                    self._outage.failed(problem)
                return StoreUnwritableError(_explanation(self._where, problem))
            case UnicodeEncodeError():
                return UnfitError(f"the store {self._where} cannot hold this text: {problem.reason}")
            case msgspec.DecodeError() | UnicodeDecodeError():
                return BackendError(f"the store {self._where} is damaged: {problem}")
            case _:
                return None

    def _removed_file_error(self) -> StoreUnwritableError:
        """The error for a file that was removed or replaced: the system would let us write into the old one."""
        problem = StoreUnwritableError(
            f"the store {self._where} was removed or replaced while it was open: put it back, or start again with the"
            " one that is there"
        )
        if _log.hasHandlers():
            self._outage.failed(problem)
        return problem


class _Explained:
    """Every SQLite error in the body becomes our own error. This is a class because every step uses it, and a generator
    would make twice as many calls."""

    __slots__ = ("_changes", "_history")

    def __init__(self, history: SqliteHistory) -> None:
        self._history = history

    def __enter__(self) -> None:
        self._changes = self._history._changes_before()

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if problem is not None:
            if (error := self._history._error(problem)) is not None:
                raise error from problem
        elif self._changes is not None:
            self._history._worked(self._changes)


def file_identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def damage_as_unreadable(execution_id: str) -> Iterator[None]:
    """Raise UnreadableError, which concerns one execution only, for an event whose text is damaged."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        if "UTF-8" not in str(problem):
            raise
        raise UnreadableError(f"an event of execution {execution_id} is damaged: {problem}") from problem


def reading_connection(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, also for a store without write permission."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        if not os.access(path, os.W_OK) and not _log_of(path).exists():
            # No process has it open, and SQLite could not create its files beside it.
            return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.DatabaseError as problem:
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF not in _NOT_WRITABLE:
                return connection  # the next read explains the error
            connection.close()
            return _immutable(path, address, problem)
        return connection
    except sqlite3.Error as problem:
        raise BackendError(f"the store {path} cannot be opened: {problem}") from problem


def _immutable(path: Path, address: str, problem: sqlite3.Error) -> sqlite3.Connection:
    """A connection to a store that cannot be written, such as a copy on a read-only disk. SQLite creates no files then,
    and does not read the write-ahead log beside it: a store with a part of it there is refused."""
    log = _log_of(path)
    if log.exists() and log.stat().st_size:
        raise BackendError(
            f"the store {path} is read-only, and a part of it is still in {log.name}: copy both to a folder that you "
            "can write, and name the copy with --db"
        ) from problem
    return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _renew(path: Path) -> None:
    """Migrate a store of an older version, over a connection that may write. Its events stay in rows: only the next
    writer packs them."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        database.migrate(connection, database.known_migrations(), str(path))
    finally:
        connection.close()


def _is_unwritable(problem: sqlite3.Error) -> bool:
    """Whether only writes fail, until there is space or permission again."""
    code = getattr(problem, "sqlite_errorcode", 0)
    return code & 0xFF in _UNWRITABLE and code not in _UNREADABLE


def _explanation(where: str, problem: sqlite3.Error) -> str:
    match getattr(problem, "sqlite_errorcode", 0) & 0xFF:  # the primary code; the rest of the number is detail
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"the store {where} is locked by another program: try again when that has ended"
        case sqlite3.SQLITE_CORRUPT:
            return f"the store {where} is damaged or cut short ({problem}): restore it from a copy"
        case sqlite3.SQLITE_NOTADB:
            return f"{where} is not a NoETL store ({problem})"
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return f"the store {where} cannot be written ({problem}): see whether the disk is full or broken"
        case sqlite3.SQLITE_READONLY:
            return f"the store {where} is read-only, or a file beside it is: make {where}* writable"
        case _:
            return f"the store {where} failed: {problem}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0  # a cursor of another store
