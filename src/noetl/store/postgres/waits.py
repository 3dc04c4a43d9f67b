"""Waits, messages, human tasks and requests of processes, in PostgreSQL. What a commit does to them is in `commits`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from noetl.store.human_tasks import TaskRow, TaskState
from noetl.store.postgres.database import QUERIES, Database
from noetl.store.requests import RequestRow
from noetl.store.row_codecs import kept_of, message_of, message_values, task_of, wait_of
from noetl.store.waits import KeptRow, MessageRow, Place, WaitRow


class PostgresWaits:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def waiting(self, kind: str, name: str, correlations: Collection[str] | None = None) -> list[WaitRow]:
        wanted = None if correlations is None else list(correlations)
        return [wait_of(row) for row in await self._db.rows("select_waiting", kind, name, wanted)]

    async def of(self, execution_id: str) -> list[WaitRow]:
        return [wait_of(row) for row in await self._db.rows("select_waits_of", execution_id)]

    async def newest(self, *, limit: int = 100) -> list[WaitRow]:
        return [wait_of(row) for row in await self._db.rows("select_newest_waits", limit)]

    async def keep(self, message: MessageRow) -> bool:
        return await self._db.change("insert_message", *message_values(message)) == 1

    async def message(self, message_id: str) -> MessageRow | None:
        row = await self._db.row("select_message", message_id)
        return message_of(row) if row else None

    async def stored_messages(self, name: str, *, now: float) -> list[MessageRow]:
        return [message_of(row) for row in await self._db.rows("select_kept", name, now)]

    async def newest_kept(
        self, *, now: float, name: str | None = None, limit: int = 100, beyond: Place | None = None
    ) -> list[KeptRow]:
        rows = await self._db.rows("select_newest_kept", now, name, limit, *(beyond or (None, None)))
        return [kept_of(row) for row in rows]

    async def count_kept(self, name: str, *, now: float) -> int:
        return int((await self._db.rows("count_kept", name, now))[0][0])

    async def names_kept(self, *, now: float) -> list[str]:
        return [row[0] for row in await self._db.rows("select_names_kept", now)]

    async def remove(self, message_id: str, *, now: float) -> bool:
        return await self._db.change("remove_message", message_id, now) == 1

    async def remove_named(self, name: str, *, now: float) -> int:
        return await self._db.change("remove_named_messages", name, now)

    async def discard(self, *, before: float) -> int:
        return await self._db.assign("discard_messages", before)


class PostgresTasks:
    """Human tasks."""

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


class PostgresRequests:
    """Requests to the process that drives an execution."""

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
