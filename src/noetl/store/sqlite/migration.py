"""Migrations: numbered .sql files, each run once, in order, under a lock, and remembered with its checksum.

A store whose migrations this program does not have was written by a newer one and is refused, never touched.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import msgspec

from noetl.errors import BackendError
from noetl.store.sqlite.transaction import transaction

FOLDER = Path(__file__).with_name("migrations")


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    statements: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.statements.encode()).hexdigest()


def known_migrations(folder: Path = FOLDER) -> list[Migration]:
    return [
        Migration(int(path.stem.split("_")[0]), path.stem, path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.sql"))
    ]


def migrate(connection: sqlite3.Connection, known: list[Migration], where: str) -> None:
    """Bring the database up to the newest of `known`. Safe when several processes open it at once."""
    if is_up_to_date(connection, known, where):
        return
    with transaction(connection):
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT"
        )
        done = _applied(connection, known, where)
        for migration in known[len(done) :]:
            for statement in _statements(migration.statements):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migration VALUES (?, ?, ?)", (migration.number, migration.name, migration.checksum)
            )


def is_store(connection: sqlite3.Connection) -> bool:
    """Whether any of our migrations ever ran here."""
    found = connection.execute("SELECT 1 FROM pragma_table_info('migration') WHERE name = 'checksum'").fetchone()
    return bool(found)


def refuse_others(connection: sqlite3.Connection, where: str) -> None:
    """BackendError when another program keeps its data here: ours would not belong among them."""
    if not is_store(connection) and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise BackendError(f"{where} is no store of noetl but a database of another program: name another with --db")


def is_up_to_date(connection: sqlite3.Connection, known: list[Migration], where: str) -> bool:
    """BackendError when a newer program wrote it."""
    return is_store(connection) and len(_applied(connection, known, where)) == len(known)


def _applied(connection: sqlite3.Connection, known: list[Migration], where: str) -> list[tuple[int, str]]:
    """What has run here, checked against what this program knows."""
    done = connection.execute("SELECT number, checksum FROM migration ORDER BY number").fetchall()
    if len(done) > len(known):
        newest = f"it is at migration {done[-1][0]}, this program knows {len(known)}"
        raise BackendError(f"the store {where} was written by a newer noetl ({newest}): install that version")
    for (number, checksum), migration in zip(done, known, strict=False):
        if (number, checksum) != (migration.number, migration.checksum):
            raise BackendError(f"the store {where} has another migration {number} than this program")
    return done


def _statements(script: str) -> list[str]:
    """The single statements of a script; triggers hold semicolons of their own, so sqlite says where one ends."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
