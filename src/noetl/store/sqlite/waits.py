"""Waits, messages, human tasks, and requests of other processes, in the store's SQLite file. Also notices."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

from noetl.store.contract import Commit, TakenError
from noetl.store.human_tasks import TaskRow, TaskState
from noetl.store.notices import NoticeRow, NoticeState, Settlement
from noetl.store.requests import RequestRow
from noetl.store.row_codecs import kept_of, message_of, message_values, notice_of, task_of, wait_of, wait_values
from noetl.store.sqlite.database import QUERIES, transaction
from noetl.store.waits import KeptRow, MessageRow, Place, WaitRow


class SqliteWaits:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def waiting(self, kind: str, name: str, correlations: Collection[str] | None = None) -> list[WaitRow]:
        wanted = None if correlations is None else json.dumps(list(correlations))
        values = {"kind": kind, "name": name, "correlations": wanted}
        with self._explained():
            return [wait_of(row) for row in self._db.execute(QUERIES["select_waiting"], values)]

    async def of(self, execution_id: str) -> list[WaitRow]:
        with self._explained():
            return [wait_of(row) for row in self._db.execute(QUERIES["select_waits_of"], (execution_id,))]

    async def newest(self, *, limit: int = 100) -> list[WaitRow]:
        with self._explained():
            return [wait_of(row) for row in self._db.execute(QUERIES["select_newest_waits"], (limit,))]

    async def keep(self, message: MessageRow) -> bool:
        with self._explained():
            return self._db.execute(QUERIES["insert_message"], message_values(message)).rowcount == 1

    async def message(self, message_id: str) -> MessageRow | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_message"], (message_id,)).fetchone()
        return message_of(row) if row else None

    async def stored_messages(self, name: str, *, now: float) -> list[MessageRow]:
        with self._explained():
            return [message_of(row) for row in self._db.execute(QUERIES["select_kept"], (name, now))]

    async def newest_kept(
        self, *, now: float, name: str | None = None, limit: int = 100, beyond: Place | None = None
    ) -> list[KeptRow]:
        sent_at, message_id = beyond or (None, None)
        values = {"now": now, "name": name, "limit": limit, "sent_at": sent_at, "message_id": message_id}
        with self._explained():
            return [kept_of(row) for row in self._db.execute(QUERIES["select_newest_kept"], values)]

    async def count_kept(self, name: str, *, now: float) -> int:
        with self._explained():
            [number] = self._db.execute(QUERIES["count_kept"], (name, now)).fetchone()
        return int(number)

    async def names_kept(self, *, now: float) -> list[str]:
        with self._explained():
            return [name for (name,) in self._db.execute(QUERIES["select_names_kept"], (now,))]

    async def remove(self, message_id: str, *, now: float) -> bool:
        with self._explained():
            return self._db.execute(QUERIES["remove_message"], (message_id, now)).rowcount == 1

    async def remove_named(self, name: str, *, now: float) -> int:
        with self._explained():
            return self._db.execute(QUERIES["remove_named_messages"], (name, now)).rowcount

    async def discard(self, *, before: float) -> int:
        with self._explained():
            return self._db.execute(QUERIES["discard_messages"], (before,)).rowcount


def write_waits(db: sqlite3.Connection, commit: Commit) -> None:
    """What one commit does to waits and messages. TakenError when a message was delivered elsewhere, or removed."""
    db.executemany(QUERIES["insert_wait"], [wait_values(wait) for wait in commit.waits])
    db.executemany(QUERIES["delete_wait"], [(wait_id,) for wait_id in commit.closed_waits])
    for message_id in commit.taken_messages:
        # The update has the condition that nobody has taken it, inside the transaction: of two waits one gets the
        # message.
        if db.execute(QUERIES["take_message"], (commit.execution.execution_id, message_id)).rowcount != 1:
            raise TakenError(f"message {message_id} was delivered to another wait, or removed")


class SqliteTasks:
    """Human tasks. `explained` turns what SQLite cannot do into our own error."""

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


class SqliteRequests:
    """Requests to the process that drives an execution. `explained` turns what SQLite cannot do into our own error."""

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


# Notices in the store's SQLite file.


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
