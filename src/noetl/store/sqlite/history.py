"""Reading a store in SQLite: events, executions, orders and nets as they were committed.

`SqliteHistory.open` gives a connection that cannot write. In WAL mode such a reader and the process that runs an
execution do not wait for each other, so another terminal may look as often as it likes.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import AbsentError, BackendError, Outage, StoreUnwritableError, UnfitError, UnreadableError
from noetl.events.envelope import Event
from noetl.store.contract import ExecutionRow, MovedExecution, OrderRow, SingleRow
from noetl.store.event_batches import batch_events, picked, picked_events
from noetl.store.execution_filters import lowered
from noetl.store.installation import KeyValues
from noetl.store.row_codecs import event_of, execution_of, order_of
from noetl.store.sql_files import Applied, applied_of
from noetl.store.sqlite.database import (
    QUERIES,
    applied,
    is_store,
    is_up_to_date,
    known_migrations,
    migrate,
    refuse_others,
)
from noetl.store.sqlite.installation import SqliteKeyValues

_PATIENCE_MS = 2_000  # a reader waits only while the file itself is being recovered
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
# A disk that cannot be read: nothing that more room would mend.
_UNREADABLE = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
    sqlite3.SQLITE_IOERR_DATA,
)
# A moment is taken when something is decided, and seen by others when it is committed. A minute covers any commit.
_ENDED_LATE_S = 60.0
_log = logging.getLogger(__name__)


class SqliteHistory:
    """What is recorded in one file. `SqliteStore` adds writing."""

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        self._db = connection
        self._where = where
        # None for a reader: it may go on with a file that was replaced.
        self._file: tuple[int, int] | None = None  # which one it was when it was opened for writing
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
                if not is_store(history._db):
                    raise BackendError(f"{path} is no store of noetl: name another file with --db")
                if not is_up_to_date(history._db, known_migrations(), str(path)):
                    _renew(path)
        except BaseException:
            history._db.close()
            raise
        return history

    @classmethod
    def applied(cls, path: Path) -> Applied:
        """The migrations of a store, which is left as it is. BackendError when there is none, or another's."""
        if not path.exists():
            raise BackendError(f"there is no store {path}")
        history = cls(reading_connection(path), str(path))
        try:
            with history._explained():
                refuse_others(history._db, str(path))
                done = applied(history._db) if is_store(history._db) else []
                return applied_of(done, known_migrations(), str(path))
        finally:
            history._db.close()

    async def events(self, execution_id: str, *, after: int = 0, only: SingleRow | None = None) -> list[Event]:
        with self._explained(), damage_as_unreadable(execution_id):
            # Rows first: whoever packs them meanwhile does it in one transaction, so they are here or there.
            rows = self._db.execute(QUERIES["select_rows"], (execution_id, after)).fetchall()
            if rows:
                return picked_events([event_of(execution_id, row) for row in rows], only)
            # From the end, one batch after another: whoever wants the last ten events of a long log must not read all
            # of it.
            query = QUERIES["select_newest_batches" if only is not None and only.newest else "select_batches"]
            found = self._db.execute(query, (execution_id, after))
            batches = (batch_events(execution_id, row, after=after, only=only) for row in found)
            return picked(batches, only)

    async def execution(self, execution_id: str) -> ExecutionRow | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_execution"], (execution_id,)).fetchone()
        return execution_of(row) if row else None

    async def positions(self, execution_ids: Collection[str]) -> dict[str, int]:
        with self._explained():
            return dict(self._db.execute(QUERIES["select_positions"], (json.dumps(list(execution_ids)),)).fetchall())

    async def open_among(self, execution_ids: Collection[str]) -> set[str]:
        with self._explained():
            rows = self._db.execute(QUERIES["select_open_among"], (json.dumps(list(execution_ids)),)).fetchall()
        return {row[0] for row in rows}

    async def executions(
        self,
        *,
        limit: int = 50,
        status: str | None = None,
        path: str | None = None,
        beyond: str | None = None,
        since: float | None = None,
        until: float | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[ExecutionRow]:
        values = {
            "status": status,
            "path": path,
            "beyond": beyond,
            "limit": limit,
            "since": since,
            "until": until,
            "text": None if text is None else lowered(text),
            "labels": json.dumps(dict(labels)) if labels else None,
        }
        with self._explained():
            return [execution_of(row) for row in self._db.execute(QUERIES["select_executions"], values)]

    async def moved(self, since: str | None) -> MovedExecution:
        """One file has few writers: all that is open is told, and what ended of late, if anybody wrote at all. Ends
        are told for a while longer, since whoever decided them may have committed later."""
        with self._explained():
            # It changes with commits of other connections, `total_changes` with our own: together they tell whether
            # anybody wrote.
            [version] = self._db.execute("PRAGMA data_version").fetchone()
            here = f"{version}.{self._db.total_changes}"
            before, _, last_end = (since or "").partition("/")
            if since is not None and before == here:
                return MovedExecution(since)
            last = self._db.execute(QUERIES["select_last_end"]).fetchone()[0]
            cursor = f"{here}/{last or 0.0!r}"
            if since is None:
                return MovedExecution(cursor)
            late = _number(last_end) - _ENDED_LATE_S
            return MovedExecution(cursor, dict(self._db.execute(QUERIES["select_moved"], (late,)).fetchall()))

    async def children(self, execution_id: str) -> list[ExecutionRow]:
        with self._explained():
            return [execution_of(row) for row in self._db.execute(QUERIES["select_children"], (execution_id,))]

    async def tally(self) -> dict[str, int]:
        with self._explained():
            return dict(self._db.execute(QUERIES["tally_executions"]).fetchall())

    async def begin_with(self, prefix: str, *, limit: int = 10) -> list[str]:
        with self._explained():
            rows = self._db.execute(QUERIES["select_ids"], (prefix, len(prefix), prefix, limit)).fetchall()
        return [execution_id for (execution_id,) in rows]

    async def orders(self, execution_id: str) -> list[OrderRow]:
        with self._explained():
            return [order_of(row) for row in self._db.execute(QUERIES["select_orders"], (execution_id,))]

    async def net(self, net_hash: str) -> bytes:
        with self._explained():
            row = self._db.execute(QUERIES["select_net"], (net_hash,)).fetchone()
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

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever SQLite cannot do becomes our own error, naming the file."""
        # Only during an outage: this is called for every statement.
        changes = self._db.total_changes if self._outage.is_on else None
        if self._file is not None and file_identity(self._where) != self._file:
            raise self._gone()
        try:
            yield
        except sqlite3.Error as problem:
            if not _is_unwritable(problem):
                raise BackendError(_explanation(self._where, problem)) from problem
            # A program without a log, as a command is, hears of it by this error alone.
            if _log.hasHandlers():
                self._outage.failed(problem)
            raise StoreUnwritableError(_explanation(self._where, problem)) from problem
        except UnicodeEncodeError as problem:
            raise UnfitError(f"the store {self._where} cannot hold this text: {problem.reason}") from problem
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise BackendError(f"the store {self._where} is damaged: {problem}") from problem
        else:
            # Reads succeed all the time. Only a change that is committed says that there is room again.
            if changes is not None and self._db.total_changes > changes and not self._db.in_transaction:
                self._outage.worked()

    def _gone(self) -> StoreUnwritableError:
        """The system would let us write on into a file that nobody can open any more."""
        problem = StoreUnwritableError(
            f"the store {self._where} was removed or replaced while it was open: put it back, or start again with the"
            " one that is there"
        )
        if _log.hasHandlers():
            self._outage.failed(problem)
        return problem


def file_identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def damage_as_unreadable(execution_id: str) -> Iterator[None]:
    """What is no text any more among the events of one execution is told of that one alone."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        if "UTF-8" not in str(problem):
            raise
        raise UnreadableError(f"an event of execution {execution_id} is damaged: {problem}") from problem


def reading_connection(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, also to a store that nobody can."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        if not os.access(path, os.W_OK) and not _log_of(path).exists():
            # nobody has it open, and the files that SQLite would make beside it would be read-only too
            return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.DatabaseError as problem:
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF not in _NOT_WRITABLE:
                return connection  # whoever reads next says what is wrong
            connection.close()
            return _immutable(path, address, problem)
        return connection
    except sqlite3.Error as problem:
        raise BackendError(f"the store {path} cannot be opened: {problem}") from problem


def _immutable(path: Path, address: str, problem: sqlite3.Error) -> sqlite3.Connection:
    """A store that nobody can write, such as a copy on a read-only disk: SQLite would make files beside it to keep
    readers and writers apart, and there are no writers. What is only in its log cannot be read so."""
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
    """Bring a store of an older program up to date, which takes a connection that may write. Its events stay in rows:
    packing them is for whoever writes anyway."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        migrate(connection, known_migrations(), str(path))
    finally:
        connection.close()


def _is_unwritable(problem: sqlite3.Error) -> bool:
    """Whether it is read as ever, and no write will succeed until somebody makes room or gives rights."""
    code = getattr(problem, "sqlite_errorcode", 0)
    return code & 0xFF in _UNWRITABLE and code not in _UNREADABLE


def _explanation(where: str, problem: sqlite3.Error) -> str:
    match getattr(problem, "sqlite_errorcode", 0) & 0xFF:  # the rest of the number only says where it was noticed
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"the store {where} is locked by another program: try again when that has ended"
        case sqlite3.SQLITE_CORRUPT:
            return f"the store {where} is damaged or cut short ({problem}): restore it from a copy"
        case sqlite3.SQLITE_NOTADB:
            return f"{where} is no store of noetl ({problem})"
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
