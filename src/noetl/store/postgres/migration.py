"""Migrations of the store in PostgreSQL, run in one transaction under an advisory lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store.migrations import StoreMigration, migrations_in, pending
from noetl.store.postgres.address import Address
from noetl.store.postgres.database import Database

FOLDER = Path(__file__).with_name("migrations")
_IS_STORE = "SELECT to_regclass('migration') IS NOT NULL"
_OTHERS = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p', 'v') LIMIT 1"
_APPLIED = "SELECT number, checksum FROM migration ORDER BY number"
_TABLE = "CREATE TABLE migration (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)"
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('noetl migrations'), hashtext($1))"
_LONG_S = 3_600.0  # large tables take their time


def known_migrations(folder: Path = FOLDER) -> list[StoreMigration]:
    return migrations_in(folder)


async def applied(connection: Any) -> list[tuple[int, str]]:
    """Numbers and checksums of what has run in our schema; nothing when it is not there."""
    if not await connection.fetchval(_IS_STORE):
        return []
    return [tuple(row) for row in await connection.fetch(_APPLIED)]


async def migrate(database: Database, known: list[StoreMigration]) -> list[StoreMigration]:
    """Bring the schema up to the newest of `known` and give what ran. Safe when several programs open it at once."""
    if not pending(await database.read(applied), known, database.where):
        return []
    return await database.run_in_transaction(
        lambda connection: _migrated(connection, known, database.address), repeats=True
    )


async def _migrated(connection: Any, known: list[StoreMigration], address: Address) -> list[StoreMigration]:
    schema, where = address.schema, address.shown
    await connection.execute(_LOCK, schema)
    if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema):
        await connection.execute(f"CREATE SCHEMA {schema}")  # a plain name, see `address_of`
    if not await connection.fetchval(_IS_STORE):
        await _refuse_others(connection, schema, where)
        await connection.execute(_TABLE)
    missing = pending(await applied(connection), known, where)  # others may have been here meanwhile
    for migration in missing:
        await connection.execute(migration.statements, timeout=_LONG_S)
        values = (migration.number, migration.name, migration.checksum)
        await connection.execute("INSERT INTO migration VALUES ($1, $2, $3)", *values)
        crash_point("migration.within")
    return missing


async def _refuse_others(connection: Any, schema: str, where: str) -> None:
    """BackendError when another program keeps its tables in this schema: ours would not belong among them."""
    other = await connection.fetchval(_OTHERS, schema)
    if other is not None:
        raise BackendError(f'the schema {schema} of {where} is not ours, it has "{other}": name another by search_path')
