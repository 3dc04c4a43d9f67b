"""The audit log in the store's SQLite file; triggers refuse whatever is not a row behind the last one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from noetl.store.audit import COLUMNS, ORIGIN, PAGE, AuditEntry, AuditRow, chained, row_values
from noetl.store.sqlite.queries import QUERIES
from noetl.store.sqlite.transaction import transaction


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
