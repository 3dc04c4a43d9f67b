"""The audit log in PostgreSQL; triggers refuse whatever is not a row behind the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.store.audit import ORIGIN, PAGE, AuditEntry, AuditRow, chained
from noetl.store.postgres.database import Database
from noetl.store.postgres.queries import QUERIES

_COLUMNS = ("seq", "at", "actor", "action", "object", "address", "outcome", "prev_hash", "hash")


class PostgresAudit:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        await self._db.together(lambda connection: _append(connection, entries))

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        return [_row(row) for row in await self._db.rows("select_audit", after, limit)]

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        return [_row(row) for row in await self._db.rows("select_newest_audit", before, limit)]


async def _append(connection: Any, entries: Sequence[AuditEntry]) -> None:
    await connection.execute(QUERIES["lock_audit"])  # there is one chain, whoever writes to it
    seq, last = await connection.fetchrow(QUERIES["select_last_audit"]) or (0, ORIGIN)
    rows = chained(entries, seq=seq, prev_hash=last)
    await connection.executemany(QUERIES["insert_audit"], [_values(row) for row in rows])


def _values(row: AuditRow) -> tuple[Any, ...]:
    return tuple(getattr(row, column) for column in _COLUMNS)


def _row(row: Sequence[Any]) -> AuditRow:
    return AuditRow(**dict(zip(_COLUMNS, row, strict=True)))
