"""Requests to the process that drives an execution, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.store.postgres.database import Database
from noetl.store.postgres.queries import QUERIES
from noetl.store.requests import RequestRow


class PostgresRequests:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        values = (execution_id, action, reason, at)
        number: int = await self._db.write(lambda connection: connection.fetchval(QUERIES["insert_request"], *values))
        return number

    async def pending(self) -> list[RequestRow]:
        return [_row(row) for row in await self._db.rows("select_pending_requests")]

    async def get(self, request_id: int) -> RequestRow | None:
        row = await self._db.row("select_request", request_id)
        return _row(row) if row else None

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        await self._db.assign("answer_request", answer, at, request_id)


def _row(row: Sequence[Any]) -> RequestRow:
    return RequestRow(**dict(zip(RequestRow.__struct_fields__, row, strict=True)))
