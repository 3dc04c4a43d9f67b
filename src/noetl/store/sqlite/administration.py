"""What administrators keep in the store's SQLite file: sealed credentials, and the audit log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from noetl.events.credentials import SealedCredential
from noetl.store.audit import COLUMNS, ORIGIN, PAGE, AuditEntry, AuditRow, chained, row_values
from noetl.store.sqlite.queries import QUERIES
from noetl.store.sqlite.transaction import transaction


class SqliteCredentials:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def get(self, name: str) -> SealedCredential | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_credential"], (name,)).fetchone()
        return _credential(row) if row else None

    async def list(self) -> list[SealedCredential]:
        with self._explained():
            return [_credential(row) for row in self._db.execute(QUERIES["select_credentials"])]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        values = msgspec.structs.astuple(row)
        with self._explained():
            if over is None:
                done = self._db.execute(QUERIES["insert_credential"], values)
            else:
                seen = (over.name, over.version, over.key_id)
                done = self._db.execute(QUERIES["replace_credential"], (*values[1:], *seen))
        return done.rowcount == 1

    async def delete(self, name: str) -> bool:
        with self._explained():
            return self._db.execute(QUERIES["delete_credential"], (name,)).rowcount == 1


def _credential(row: Sequence[Any]) -> SealedCredential:
    return SealedCredential(**dict(zip(SealedCredential.__struct_fields__, row, strict=True)))


# The audit log in the store's SQLite file; triggers refuse whatever is not a row behind the last one.
class SqliteAudit:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        with self._explained(), transaction(self._db):
            seq, last = self._db.execute(QUERIES["select_last_audit"]).fetchone() or (0, ORIGIN)
            rows = chained(entries, seq=seq, prev_hash=last)
            self._db.executemany(QUERIES["insert_audit"], [row_values(row) for row in rows])

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        with self._explained():
            return [_row(row) for row in self._db.execute(QUERIES["select_audit"], (after, limit))]

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        with self._explained():
            found = self._db.execute(QUERIES["select_newest_audit"], {"before": before, "limit": limit})
            return [_row(row) for row in found]


def _row(row: Sequence[Any]) -> AuditRow:
    return AuditRow(**dict(zip(COLUMNS, row, strict=True)))
