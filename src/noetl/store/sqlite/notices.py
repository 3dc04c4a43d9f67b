"""Notices in the store's SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

from noetl.store.notices import NoticeRow, NoticeState, Settlement
from noetl.store.row_codecs import notice_of
from noetl.store.sqlite.database import QUERIES, transaction


class SqliteNotices:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def get(self, notice_id: str) -> NoticeRow | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_notice"], (notice_id,)).fetchone()
        return notice_of(row) if row else None

    async def list(
        self,
        *,
        states: Collection[NoticeState] = (),
        execution_id: str | None = None,
        limit: int = 100,
        beyond: str | None = None,
    ) -> list[NoticeRow]:
        values = {
            "states": json.dumps(list(states)) if states else None,
            "execution_id": execution_id,
            "limit": limit,
            "beyond": beyond,
        }
        with self._explained():
            return [notice_of(row) for row in self._db.execute(QUERIES["select_notices"], values)]

    async def claim(self, *, now: float, until: float, limit: int) -> Sequence[NoticeRow]:
        # Reading first: a server asks every second, and most of the time a write transaction would be for nothing.
        with self._explained():
            if self._db.execute(QUERIES["select_due_notice"], (now,)).fetchone() is None:
                return []
        with self._explained(), transaction(self._db):
            values = {"now": now, "until": until, "limit": limit}
            taken = [one for (one,) in self._db.execute(QUERIES["claim_notices"], values).fetchall()]
            for notice_id in taken:
                self._db.execute(QUERIES["count_folded"], {"leader": notice_id})
                self._db.execute(QUERIES["fold_notices"], {"leader": notice_id, "now": now})
            rows = [self._db.execute(QUERIES["select_notice"], (one,)).fetchone() for one in taken]
        return [notice_of(row) for row in rows]

    async def settle(self, notice_id: str, *, attempts: int, settlement: Settlement) -> bool:
        ended_at = None if settlement.state is NoticeState.PENDING else settlement.at
        values = (settlement.state.value, settlement.due_at, settlement.error, ended_at, notice_id, attempts)
        with self._explained():
            return self._db.execute(QUERIES["settle_notice"], values).rowcount == 1

    async def send_again(self, notice_id: str, *, now: float) -> bool:
        with self._explained():
            return self._db.execute(QUERIES["revive_notice"], (now, notice_id)).rowcount == 1

    async def tally(self) -> dict[str, int]:
        with self._explained():
            return dict(self._db.execute(QUERIES["count_notices"]).fetchall())

    async def sweep(self, *, before: float, states: Collection[NoticeState]) -> int:
        with self._explained():
            return self._db.execute(QUERIES["sweep_notices"], (before, json.dumps(list(states)))).rowcount
