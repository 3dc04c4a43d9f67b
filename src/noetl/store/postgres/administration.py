"""What administrators keep in PostgreSQL: sealed credentials, and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec

from noetl.events.credentials import SealedCredential
from noetl.store.audit import ORIGIN, PAGE, AuditEntry, AuditRow, chained
from noetl.store.postgres.database import Database
from noetl.store.postgres.queries import QUERIES


class PostgresCredentials:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, name: str) -> SealedCredential | None:
        row = await self._db.row("select_credential", name)
        return _credential(row) if row else None

    async def list(self) -> list[SealedCredential]:
        return [_credential(row) for row in await self._db.rows("select_credentials")]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        values = msgspec.structs.astuple(row)
        if over is None:
            return await self._db.change("insert_credential", *values) == 1
        if over.name != row.name:
            return False
        return await self._db.change("replace_credential", *values, over.version, over.key_id) == 1

    async def delete(self, name: str) -> bool:
        return await self._db.change("delete_credential", name) == 1


def _credential(row: Sequence[Any]) -> SealedCredential:
    return SealedCredential(**dict(zip(SealedCredential.__struct_fields__, row, strict=True)))


# The audit log in PostgreSQL; triggers refuse whatever is not a row behind the last one.
_COLUMNS = ("seq", "at", "actor", "action", "object", "address", "outcome", "prev_hash", "hash")


class PostgresAudit:
    """Where nobody else has written since, a single statement appends; it is refused when somebody has, by the chain's
    trigger or by its key, and then written under the lock."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._end: tuple[int, str] | None = None  # of the chain, as far as this process knows

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        if not entries:
            return
        end, self._end = self._end, None
        last = await self._db.write(lambda connection: _follow(connection, entries, *end)) if end else None
        if last is None:
            last = await self._db.run_in_transaction(lambda connection: _append(connection, entries))
        self._end = last.seq, last.hash

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        return [_row(row) for row in await self._db.rows("select_audit", after, limit)]

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        return [_row(row) for row in await self._db.rows("select_newest_audit", before, limit)]


async def _append(connection: Any, entries: Sequence[AuditEntry]) -> AuditRow:
    """Behind the last one, whosever it is; gives the new last one."""
    await connection.execute(QUERIES["lock_audit"])  # there is one chain, whoever writes to it
    seq, last = await connection.fetchrow(QUERIES["select_last_audit"]) or (0, ORIGIN)
    return await _insert(connection, chained(entries, seq=seq, prev_hash=last))


async def _follow(connection: Any, entries: Sequence[AuditEntry], seq: int, last: str) -> AuditRow | None:
    """The same behind the row that was last a moment ago; None when it is so no more."""
    try:
        return await _insert(connection, chained(entries, seq=seq, prev_hash=last))
    except (asyncpg.UniqueViolationError, asyncpg.RaiseError):
        return None


async def _insert(connection: Any, rows: list[AuditRow]) -> AuditRow:
    await connection.execute(QUERIES["insert_audit"], *zip(*map(_values, rows), strict=True))
    return rows[-1]


def _values(row: AuditRow) -> tuple[Any, ...]:
    return tuple(getattr(row, column) for column in _COLUMNS)


def _row(row: Sequence[Any]) -> AuditRow:
    return AuditRow(**dict(zip(_COLUMNS, row, strict=True)))
