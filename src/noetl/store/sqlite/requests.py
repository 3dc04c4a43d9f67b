"""Requests to the process that drives an execution, in the store's SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from noetl.store.requests import RequestRow
from noetl.store.sqlite.queries import QUERIES


class SqliteRequests:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        with self._explained():
            done = self._db.execute(QUERIES["insert_request"], (execution_id, action, reason, at))
        assert done.lastrowid is not None
        return done.lastrowid

    async def pending(self) -> list[RequestRow]:
        with self._explained():
            return [_row(row) for row in self._db.execute(QUERIES["select_pending_requests"])]

    async def get(self, request_id: int) -> RequestRow | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_request"], (request_id,)).fetchone()
        return _row(row) if row else None

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        with self._explained():
            self._db.execute(QUERIES["answer_request"], (answer, at, request_id))


def _row(row: Sequence[Any]) -> RequestRow:
    return RequestRow(**dict(zip(RequestRow.__struct_fields__, row, strict=True)))
