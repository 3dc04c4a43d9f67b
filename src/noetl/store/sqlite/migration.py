"""Migrations of the store in SQLite, run under its write lock."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store.migrations import StoreMigration, migrations_in, pending
from noetl.store.sqlite.transaction import transaction

FOLDER = Path(__file__).with_name("migrations")


def known_migrations(folder: Path = FOLDER) -> list[StoreMigration]:
    return migrations_in(folder)


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
    """Whether any of our migrations ever ran here."""
    found = connection.execute("SELECT 1 FROM pragma_table_info('migration') WHERE name = 'checksum'").fetchone()
    return bool(found)


def refuse_others(connection: sqlite3.Connection, where: str) -> None:
    """BackendError when another program keeps its data here: ours would not belong among them."""
    # Tables first: another process may migrate the same new file between the two reads. Whoever sees its tables also
    # sees that they are ours, since a migration is one transaction.
    if connection.execute("SELECT 1 FROM sqlite_master").fetchone() and not is_store(connection):
        raise BackendError(f"{where} is no store of noetl but a database of another program: name another with --db")


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
