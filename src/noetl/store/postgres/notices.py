"""Notices in PostgreSQL. What a commit writes of them is in `commits`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from noetl.store.notices import NoticeRow, NoticeState, Settlement
from noetl.store.postgres.database import QUERIES, Database
from noetl.store.row_codecs import notice_of


class PostgresNotices:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, notice_id: str) -> NoticeRow | None:
        row = await self._db.row("select_notice", notice_id)
        return notice_of(row) if row is not None else None

    async def list(
        self,
        *,
        states: Collection[NoticeState] = (),
        execution_id: str | None = None,
        limit: int = 100,
        beyond: str | None = None,
    ) -> list[NoticeRow]:
        wanted = [state.value for state in states] or None
        rows = await self._db.rows("select_notices", wanted, execution_id, beyond, limit)
        return [notice_of(row) for row in rows]

    async def claim(self, *, now: float, until: float, limit: int) -> Sequence[NoticeRow]:
        # Reading first: a server asks every second, and most of the time the lock would be for nothing.
        if await self._db.value("select_due_notice", now) is None:
            return []

        async def claim_and_fold(connection: Any) -> list[Any]:
            # Two servers that look at the same moment would each find that no notice of a fold key is being sent.
            await connection.execute(QUERIES["lock_notices"])
            taken = [row[0] for row in await connection.fetch(QUERIES["claim_notices"], now, until, limit)]
            for notice_id in taken:
                await connection.execute(QUERIES["count_folded"], notice_id)
                await connection.execute(QUERIES["fold_notices"], notice_id, now)
            return [await connection.fetchrow(QUERIES["select_notice"], one) for one in taken]

        return [notice_of(row) for row in await self._db.run_in_transaction(claim_and_fold)]

    async def settle(self, notice_id: str, *, attempts: int, settlement: Settlement) -> bool:
        ended_at = None if settlement.state is NoticeState.PENDING else settlement.at
        values = (settlement.state.value, settlement.due_at, settlement.error, ended_at, notice_id, attempts)
        return await self._db.change("settle_notice", *values) == 1

    async def send_again(self, notice_id: str, *, now: float) -> bool:
        return await self._db.change("revive_notice", now, notice_id) == 1

    async def tally(self) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._db.rows("count_notices")}

    async def sweep(self, *, before: float, states: Collection[NoticeState]) -> int:
        return await self._db.assign("sweep_notices", before, [state.value for state in states])
