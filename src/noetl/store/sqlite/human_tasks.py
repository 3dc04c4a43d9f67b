"""Human tasks in the store's SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from noetl.store.human_tasks import TaskRow, TaskState
from noetl.store.row_codecs import task_of
from noetl.store.sqlite.queries import QUERIES


class SqliteTasks:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def get(self, task_id: str) -> TaskRow | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_task"], (task_id,)).fetchone()
        return task_of(row[0]) if row else None

    async def list(
        self,
        *,
        states: Collection[TaskState] = (),
        role: str | None = None,
        user: str | None = None,
        for_anybody: bool = False,
        execution_id: str | None = None,
        limit: int = 100,
        beyond: str | None = None,
    ) -> list[TaskRow]:
        values = {
            "states": json.dumps(list(states)) if states else None,
            "role": role,
            "user": user,
            "for_anybody": for_anybody,
            "execution_id": execution_id,
            "limit": limit,
            "beyond": beyond,
        }
        with self._explained():
            return [task_of(body) for (body,) in self._db.execute(QUERIES["select_tasks"], values)]
