"""Human tasks in PostgreSQL. What a commit does to them is in `commits`."""

from __future__ import annotations

from collections.abc import Collection

from noetl.store.human_tasks import TaskRow, TaskState
from noetl.store.postgres.database import Database
from noetl.store.row_codecs import task_of


class PostgresTasks:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, task_id: str) -> TaskRow | None:
        body = await self._db.value("select_task", task_id)
        return task_of(body) if body is not None else None

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
        wanted = [state.value for state in states] or None
        rows = await self._db.rows("select_tasks", wanted, role, user, execution_id, beyond, limit, for_anybody)
        return [task_of(row[0]) for row in rows]
