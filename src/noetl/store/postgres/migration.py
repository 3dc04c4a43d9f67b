"""Migrations of the store in PostgreSQL, run in one transaction under an advisory lock. Also the packing of events
that an earlier program stored one by one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store.event_batches import batches_of_rows
from noetl.store.postgres.database import QUERIES, Address, Database
from noetl.store.sql_files import StoreMigration, migrations_in, pending

FOLDER = Path(__file__).with_name("migrations")
_IS_STORE = "SELECT to_regclass('migration') IS NOT NULL"
_OTHERS = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p', 'v') LIMIT 1"
_APPLIED = "SELECT number, checksum FROM migration ORDER BY number"
_TABLE = "CREATE TABLE migration (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)"
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('noetl migrations'), hashtext($1))"
_LONG_S = 3_600.0  # large tables take their time
_EVENTS_AT_ONCE = 5_000  # of one transaction: others write in between
_log = logging.getLogger(__name__)


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


# Packing: events that an earlier program stored one by one become batches (docs/decisions/0016).
#
# Executions are packed whole, some in each transaction, while servers of the version before go on with them. A program
# that is killed meanwhile leaves the rest as rows, which read as ever, and the next one goes on with them.


async def pack(database: Database, *, at_once: int = _EVENTS_AT_ONCE) -> bool:
    """Pack everything that lies in rows; False when some of it could not be. Safe when several programs do it at
    once."""
    if await database.value("select_unpacked", "") is None:
        return True
    _log.info("packing the history of earlier executions, which takes a while in a large store")
    beyond: str | None = ""
    while beyond is not None:
        packer = _Packer(beyond, at_once)
        beyond = await database.run_in_transaction(packer.pack_some, repeats=True)
    _log.info("packed the history of earlier executions")
    return await database.value("select_unpacked", "") is None


class _Packer:
    """One transaction of it. What it repeats after a lost connection begins at the same execution."""

    def __init__(self, beyond: str, at_once: int) -> None:
        self._beyond, self._at_once = beyond, at_once

    async def pack_some(self, connection: Any) -> str | None:
        """Where to go on; None when nothing is left."""
        await connection.execute(QUERIES["take_time"])  # between two statements, rows are packed
        await connection.execute(QUERIES["lock_packing"], timeout=_LONG_S)
        beyond: str | None = self._beyond
        events = 0
        while events < self._at_once:
            beyond = await connection.fetchval(QUERIES["select_unpacked"], beyond)
            if beyond is None:
                break
            events += await _pack_execution(connection, beyond)
        crash_point("packing.within")
        return beyond


async def _pack_execution(connection: Any, execution_id: str) -> int:
    """How many events it has. One that lacks events stays as it is: it can be looked at, and `noetl db check` tells of
    it."""
    await connection.execute(QUERIES["lock_execution"], execution_id)
    found = await connection.fetch(QUERIES["select_rows_to_pack"], execution_id)
    rows = [(*row[:11], row[11].encode(), row[12]) for row in found]
    if [row[0] for row in rows] == list(range(1, len(rows) + 1)):
        await connection.execute(QUERIES["begin_packing"], execution_id)
        await connection.execute(QUERIES["delete_rows_to_pack"], execution_id, timeout=_LONG_S)
        await connection.execute(QUERIES["insert_batches"], batches_of_rows(execution_id, rows), timeout=_LONG_S)
        await connection.execute(QUERIES["end_packing"], execution_id)
    return len(rows)
