"""The SQLite file of a store: its statements, and its write transaction."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from noetl.store.sql_files import named_queries

QUERIES = named_queries(Path(__file__).with_name("queries.sql"))


# One write transaction. What went wrong inside is what its caller hears of, also where SQLite has rolled back by
# itself, as it does when the disk is full.


class transaction:  # noqa: N801  it reads as the verb of a `with`; a generator would cost twice as many calls a step
    """Everything in the body, or nothing of it."""

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
