"""The SQLite file of a store: its statements, its write transaction, and its migrations."""

from __future__ import annotations

import logging
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeVar

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store.event_batches import batches_of_rows
from noetl.store.sql_files import StoreMigration, migrations_in, named_queries, pending

QUERIES = named_queries(Path(__file__).with_name("queries.sql"))
Values = Sequence[Any] | Mapping[str, Any]
_Decoded = TypeVar("_Decoded")


# One write transaction. The caller receives the error from inside, even if SQLite has rolled back by itself, as it does
# when the disk is full.


class transaction:  # noqa: N801  it reads as the verb of a `with`; a generator would cost twice as many calls a step
    """Store all changes of the block, or none."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        # Takes the write lock now. A deferred transaction would take it at its first write and fail with SQLITE_BUSY,
        # without waiting, if another process had written since its first read.
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if problem is not None:
            self._roll_back()
            return
        try:
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # the first error says more, and closing the file rolls back as well
                self._connection.execute("ROLLBACK")


class SqliteQueries(ABC):
    """Named queries on the connection of a store."""

    _db: sqlite3.Connection

    @abstractmethod
    def _explained(self) -> AbstractContextManager[None]:
        """Turns errors of SQLite into our own."""

    def _rows(self, query: str, values: Values = ()) -> list[Any]:
        with self._explained():
            return self._db.execute(QUERIES[query], values).fetchall()

    def _decoded(self, of: Callable[[Any], _Decoded], query: str, values: Values = ()) -> list[_Decoded]:
        """Rows that hold JSON. Text that is damaged is an error of the store as well, so it is decoded in here."""
        with self._explained():
            return [of(row) for row in self._db.execute(QUERIES[query], values)]

    def _row(self, query: str, values: Values = ()) -> Any:
        """The first row, or None."""
        with self._explained():
            return self._db.execute(QUERIES[query], values).fetchone()

    def _change(self, query: str, values: Values) -> int:
        """Write with one statement; returns how many rows it has touched."""
        with self._explained():
            return self._db.execute(QUERIES[query], values).rowcount


class SqliteTable(SqliteQueries):
    """A part of a store, on its connection and with its errors."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db, self._explain = connection, explained

    def _explained(self) -> AbstractContextManager[None]:
        return self._explain()


# Migrations of the store in SQLite, run under its write lock. Also the packing of events that an earlier program
# stored one by one.

_EVENTS_AT_ONCE = 5_000  # of one transaction: others write in between
# A process that waits for the write lock tries every tenth of a second. Without a pause it is hardly ever free then: a
# server of the version before waited 5 s for a commit.
_PAUSE_S = 0.05
_log = logging.getLogger(__name__)


def known_migrations() -> list[StoreMigration]:
    return migrations_in(Path(__file__).with_name("migrations"))


def migrate(connection: sqlite3.Connection, known: list[StoreMigration], where: str) -> None:
    """Bring the database up to the newest of `known`. Safe when several processes open it at once."""
    if is_up_to_date(connection, known, where):
        return
    with transaction(connection):
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT"
        )
        for migration in pending(applied(connection), known, where):
            for statement in _statements(migration.statements):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migration VALUES (?, ?, ?)", (migration.number, migration.name, migration.checksum)
            )
            crash_point("migration.within")


def is_store(connection: sqlite3.Connection) -> bool:
    """Whether one of our migrations has run here."""
    found = connection.execute("SELECT 1 FROM pragma_table_info('migration') WHERE name = 'checksum'").fetchone()
    return bool(found)


def refuse_others(connection: sqlite3.Connection, where: str) -> None:
    """BackendError if another program keeps its data here: ours must not be mixed with it."""
    # Tables first: another process may migrate the same new file between the two reads. A reader that sees its tables
    # also sees that they are ours, since a migration is one transaction.
    if connection.execute("SELECT 1 FROM sqlite_master").fetchone() and not is_store(connection):
        raise BackendError(f"{where} is not a NoETL store but a database of another program: name another with --db")


def is_up_to_date(connection: sqlite3.Connection, known: list[StoreMigration], where: str) -> bool:
    """BackendError when a newer program wrote it."""
    return is_store(connection) and not pending(applied(connection), known, where)


def applied(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    """Numbers and checksums of what has run here."""
    return connection.execute("SELECT number, checksum FROM migration ORDER BY number").fetchall()


def _statements(script: str) -> list[str]:
    """The single statements of a script; triggers hold semicolons of their own, so sqlite says where one ends."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


# Packing: events that an earlier program stored one by one become batches (docs/decisions/0016).
#
# Executions are packed whole, some in each transaction. If the program is killed meanwhile, the rest stays as rows,
# which are read as before, and the next program continues with them.


def pack(connection: sqlite3.Connection, *, at_once: int = _EVENTS_AT_ONCE) -> bool:
    """Pack all events that are stored as rows; False if some could not be packed. Safe when several processes do it at
    once."""
    if _next_unpacked(connection, "") is None:
        return True
    _log.info("packing the history of earlier executions, which takes a while in a large store")
    beyond: str | None = ""
    while beyond is not None:
        with transaction(connection):
            beyond = _pack_some(connection, beyond, at_once)
            crash_point("packing.within")
        if beyond is not None:
            time.sleep(_PAUSE_S)
    _log.info("packed the history of earlier executions")
    return _next_unpacked(connection, "") is None


def _pack_some(connection: sqlite3.Connection, beyond: str, at_once: int) -> str | None:
    """Pack some executions; returns where to continue, None when nothing is left."""
    events = 0
    while events < at_once:
        execution_id = _next_unpacked(connection, beyond)
        if execution_id is None:
            return None
        beyond = execution_id
        events += _pack_execution(connection, execution_id)
    return beyond


def _next_unpacked(connection: sqlite3.Connection, beyond: str) -> str | None:
    row = connection.execute(QUERIES["select_unpacked"], (beyond,)).fetchone()
    return row[0] if row is not None else None


def _pack_execution(connection: sqlite3.Connection, execution_id: str) -> int:
    """Pack one execution; returns the number of its events. An execution that lacks events, or has damaged text, stays
    as it is: it can be read, and `noetl db check` reports it."""
    try:
        rows = connection.execute(QUERIES["select_rows_to_pack"], (execution_id,)).fetchall()
    except sqlite3.OperationalError as problem:
        if "UTF-8" not in str(problem):
            raise
        return 1
    # A trigger refuses to delete events while the row of their execution is there (EVT-01). `begin_packing` sets the
    # mark that lets this one pass.
    if [row[0] for row in rows] == list(range(1, len(rows) + 1)):
        connection.execute(QUERIES["begin_packing"], (execution_id,))
        connection.execute(QUERIES["retire_rows"], (execution_id,))
        connection.executemany(QUERIES["insert_batch"], batches_of_rows(execution_id, rows))
        connection.execute(QUERIES["end_packing"], (execution_id,))
    return len(rows)
