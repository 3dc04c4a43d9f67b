"""One write transaction. What went wrong inside is what its caller hears of, also where SQLite has rolled back by
itself, as it does when the disk is full."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything in the body, or nothing of it."""
    # Takes the write lock now. A deferred transaction would take it at its first write and fail with SQLITE_BUSY,
    # without waiting, if another process had written since its first read.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # the first error says more, and closing the file rolls back as well
                connection.execute("ROLLBACK")
        raise
