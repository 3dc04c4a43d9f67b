"""Waits, messages, human tasks and requests of processes, in PostgreSQL. Their part of a commit is in `store.py`.
Also notices, likewise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Unpack

from noetl.store.human_tasks import TaskQuery, TaskRow
from noetl.store.notices import NoticeRow, NoticeState, Settlement
from noetl.store.postgres.database import QUERIES, Database
from noetl.store.row_codecs import kept_of, message_of, message_values, notice_of, struct_of, task_of, wait_of
from noetl.store.waits import KeptRow, MessageRow, Place, RequestRow, WaitRow


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

    async def list(self, *, limit: int = 100, beyond: str | None = None, **wanted: Unpack[TaskQuery]) -> list[TaskRow]:
        states = [state.value for state in wanted.get("states", ())] or None
        role, user, execution_id = wanted.get("role"), wanted.get("user"), wanted.get("execution_id")
        for_anybody = wanted.get("for_anybody", False)
        rows = await self._db.rows("select_tasks", states, role, user, execution_id, beyond, limit, for_anybody)
        return [task_of(row[0]) for row in rows]


class PostgresRequests:
    """Requests to the process that drives an execution."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        values = (execution_id, action, reason, at)
        # Sent once: a request that is stored twice would be decided twice.
        number: int = await self._db.write(lambda connection: connection.fetchval(QUERIES["insert_request"], *values))
        return number

    async def pending(self) -> list[RequestRow]:
        return [struct_of(RequestRow, row) for row in await self._db.rows("select_pending_requests")]

    async def get(self, request_id: int) -> RequestRow | None:
        row = await self._db.row("select_request", request_id)
        return struct_of(RequestRow, row) if row else None

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        # Repeated after a lost connection: the first answer is kept, so a second write of it changes nothing.
        await self._db.assign("answer_request", answer, at, request_id)


# Notices in PostgreSQL. Their part of a commit is in `store.py`.


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
        # Read first: a server asks every second, and most of the time there is nothing to lock.
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
