"""The schema of the store in PostgreSQL: migrations, run in one transaction under an advisory lock; the packing of
events that an earlier program stored one by one; and the partitions of the history.

The history of executions that began in the same week (a span) lies in partitions of its own, so that retention drops
tables instead of deleting rows (docs/decisions/0019). The id of an execution is a UUIDv7, whose text sorts by the time
at which it was made: a week is a range of ids. Ids of another form lie in partitions beside them, and go by rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store.event_batches import batches_of_rows
from noetl.store.postgres.database import QUERIES, Address, Database
from noetl.store.sql_files import StoreMigration, migrations_in, pending

_IS_STORE = "SELECT to_regclass('migration') IS NOT NULL"
_OTHERS = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p', 'v') LIMIT 1"
_APPLIED = "SELECT number, checksum FROM migration ORDER BY number"
_TABLE = "CREATE TABLE migration (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)"
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('noetl migrations'), hashtext($1))"
_LONG_S = 3_600.0  # large tables take their time
_EVENTS_AT_ONCE = 5_000  # of one transaction: others write in between
_log = logging.getLogger(__name__)


def known_migrations() -> list[StoreMigration]:
    return migrations_in(Path(__file__).with_name("migrations"))


async def applied(connection: Any) -> list[tuple[int, str]]:
    """Numbers and checksums of what has run in our schema; nothing when it is not there."""
    if not await connection.fetchval(_IS_STORE):
        return []
    return [tuple(row) for row in await connection.fetch(_APPLIED)]


async def migrate(database: Database, known: list[StoreMigration]) -> list[StoreMigration]:
    """Bring the schema up to the newest of `known`; returns the migrations that ran. Safe when several programs open it
    at once."""
    if not pending(await database.read(applied), known, database.where):
        return []
    return await database.run_in_transaction(
        lambda connection: _run_migrations(connection, known, database.address), repeats=True
    )


async def _run_migrations(connection: Any, known: list[StoreMigration], address: Address) -> list[StoreMigration]:
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
    """BackendError if another program keeps its tables in this schema: ours must not be mixed with them."""
    other = await connection.fetchval(_OTHERS, schema)
    if other is not None:
        raise BackendError(f'the schema {schema} of {where} is not ours, it has "{other}": name another by search_path')


# Packing: events that an earlier program stored one by one become batches (docs/decisions/0016).
#
# Executions are packed whole, some in each transaction, while servers of the version before go on with them. If the
# program is killed meanwhile, the rest stays as rows, which are read as before, and the next program continues with
# them.


async def pack(database: Database, *, at_once: int = _EVENTS_AT_ONCE) -> bool:
    """Pack all events that are stored as rows; False if some could not be packed. Safe when several programs do it at
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
    """One transaction of it. A repetition after a lost connection starts at the same execution."""

    def __init__(self, beyond: str, at_once: int) -> None:
        self._beyond, self._at_once = beyond, at_once

    async def pack_some(self, connection: Any) -> str | None:
        """Pack some executions; returns where to continue, None when nothing is left."""
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
    """Pack one execution; returns the number of its events. An execution that lacks events stays as it is: it can be
    read, and `noetl db check` reports it."""
    await connection.execute(QUERIES["lock_execution"], execution_id)
    found = await connection.fetch(QUERIES["select_rows_to_pack"], execution_id)
    rows = [(*row[:11], row[11].encode(), row[12]) for row in found]
    if [row[0] for row in rows] == list(range(1, len(rows) + 1)):
        await connection.execute(QUERIES["begin_packing"], execution_id)
        await connection.execute(QUERIES["delete_rows_to_pack"], execution_id, timeout=_LONG_S)
        await connection.execute(QUERIES["insert_batches"], batches_of_rows(execution_id, rows), timeout=_LONG_S)
        await connection.execute(QUERIES["end_packing"], execution_id)
    return len(rows)


# Part of the names and bounds of tables that exist: changing it needs a migration.
SPAN_S = 7 * 86_400.0
_AHEAD = 1  # spans that are created ahead of time: servers check every hour
_DROP_S = 3_600.0  # a span may have a million executions


class HistorySpan(msgspec.Struct, frozen=True):
    """The executions whose ids are from `low` up to `high`."""

    suffix: str  # of the names of its tables
    low: str
    high: str


def span_at(moment: float) -> HistorySpan:
    number = int(moment // SPAN_S)
    begin, end = number * SPAN_S, (number + 1) * SPAN_S
    return HistorySpan(f"{datetime.fromtimestamp(begin, UTC):%Y%m%d}", first_id(begin), first_id(end))


def first_id(moment: float) -> str:
    """The lower bound of the ids of executions that start then or later."""
    digits = f"{int(moment * 1000) & 0xFFFF_FFFF_FFFF:012x}"
    return f"{digits[:8]}-{digits[8:]}"


async def add_spans(database: Database) -> None:
    """Create the current span and the next ones, unless they exist."""
    known = {row[0] for row in await database.rows("select_spans")}
    now = float(await database.value("select_now"))
    for span in (span_at(now + ahead * SPAN_S) for ahead in range(_AHEAD + 1)):
        if span.suffix not in known:
            await _try_drop(database, _Adding(span).add, "made", span.suffix)


class _Adding:
    def __init__(self, span: HistorySpan) -> None:
        self._span = span

    async def add(self, connection: Any) -> None:
        # Two servers find at the same moment that the next week is missing.
        await connection.execute(QUERIES["lock_spans"])
        await connection.execute(QUERIES["add_span"], self._span.suffix, self._span.low, self._span.high)


async def retire_spans(database: Database, before: Mapping[str, float]) -> dict[str, str]:
    """Drop the spans in which every execution ended before the moment of its net, by hash. Returns the net of each
    execution that was deleted."""
    await add_spans(database)
    now = float(await database.value("select_now"))
    nets, moments = list(before), list(before.values())
    gone: dict[str, str] = {}
    for (suffix,) in await database.rows("select_outlived_spans", nets, moments, first_id(now)):
        dropping = _Dropping(suffix, nets, moments)
        if await _try_drop(database, dropping.drop, "dropped", suffix):
            gone |= dropping.gone
    return gone


class _Dropping:
    """One transaction: it deletes the rows of the executions and all that belongs to them, then drops the tables of
    their history."""

    def __init__(self, suffix: str, nets: list[str], moments: list[float]) -> None:
        self._suffix, self._nets, self._moments = suffix, nets, moments
        self.gone: dict[str, str] = {}

    async def drop(self, connection: Any) -> None:
        await connection.execute(QUERIES["take_time"])
        values = (self._suffix, self._nets, self._moments)
        rows = await connection.fetch(QUERIES["retire_span"], *values, timeout=_DROP_S)
        self.gone = dict(rows)
        await connection.execute(QUERIES["retire_rest_of_span"], self._suffix, timeout=_DROP_S)
        crash_point("retention.within")
        # Last, since all servers wait for this lock: they can commit between two of the statements above. If an
        # execution was added meanwhile, the function refuses, and all changes are rolled back.
        await connection.execute(QUERIES["drop_span"], self._suffix)


async def _try_drop(database: Database, work: Any, done: str, suffix: str) -> bool:
    """Create or drop the tables of a span; False if a long read holds the locks. The next hour is soon enough: until a
    span exists, its rows are in the default partition."""
    try:
        await database.run_in_transaction(work, repeats=True)
    except BackendError as problem:
        if not isinstance(problem.__cause__, asyncpg.LockNotAvailableError):
            raise
        _log.info("the history of %s is not %s yet: its tables are in use", suffix, done)
        return False
    return True
