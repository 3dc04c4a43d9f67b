"""Waits, messages, human tasks, and requests of other processes, in the store's SQLite file. Also notices."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Unpack

from noetl.store import row_codecs
from noetl.store.contract import Commit, TakenError
from noetl.store.human_tasks import TaskQuery, TaskRow
from noetl.store.notices import NoticeRow, NoticeState, Settlement
from noetl.store.sqlite.database import QUERIES, SqliteTable, transaction
from noetl.store.waits import KeptRow, MessageRow, Place, RequestRow, WaitRow


class SqliteWaits(SqliteTable):
    async def waiting(self, kind: str, name: str, correlations: Collection[str] | None = None) -> list[WaitRow]:
        wanted = None if correlations is None else json.dumps(list(correlations))
        values = {"kind": kind, "name": name, "correlations": wanted}
        return self._decoded(row_codecs.wait_of, "select_waiting", values)

    async def of(self, execution_id: str) -> list[WaitRow]:
        return self._decoded(row_codecs.wait_of, "select_waits_of", (execution_id,))

    async def newest(self, *, limit: int = 100) -> list[WaitRow]:
        return self._decoded(row_codecs.wait_of, "select_newest_waits", (limit,))

    async def keep(self, message: MessageRow) -> bool:
        return self._change("insert_message", row_codecs.message_values(message)) == 1

    async def message(self, message_id: str) -> MessageRow | None:
        row = self._row("select_message", (message_id,))
        return row_codecs.message_of(row) if row else None

    async def stored_messages(self, name: str, *, now: float) -> list[MessageRow]:
        return self._decoded(row_codecs.message_of, "select_kept", (name, now))

    async def newest_kept(
        self, *, now: float, name: str | None = None, limit: int = 100, beyond: Place | None = None
    ) -> list[KeptRow]:
        sent_at, message_id = beyond or (None, None)
        values = {"now": now, "name": name, "limit": limit, "sent_at": sent_at, "message_id": message_id}
        return self._decoded(row_codecs.kept_of, "select_newest_kept", values)

    async def count_kept(self, name: str, *, now: float) -> int:
        [number] = self._row("count_kept", (name, now))
        return int(number)

    async def names_kept(self, *, now: float) -> list[str]:
        return [name for (name,) in self._rows("select_names_kept", (now,))]

    async def remove(self, message_id: str, *, now: float) -> bool:
        return self._change("remove_message", (message_id, now)) == 1

    async def remove_named(self, name: str, *, now: float) -> int:
        return self._change("remove_named_messages", (name, now))

    async def discard(self, *, before: float) -> int:
        return self._change("discard_messages", (before,))


def write_waits(db: sqlite3.Connection, commit: Commit) -> None:
    """The writes of one commit to waits and messages. TakenError when a message was delivered elsewhere, or removed."""
    db.executemany(QUERIES["insert_wait"], [row_codecs.wait_values(wait) for wait in commit.waits])
    db.executemany(QUERIES["delete_wait"], [(wait_id,) for wait_id in commit.closed_waits])
    for message_id in commit.taken_messages:
        # The update requires, inside the transaction, that no wait has taken the message: of two waits only one gets
        # it.
        if db.execute(QUERIES["take_message"], (commit.execution.execution_id, message_id)).rowcount != 1:
            raise TakenError(f"message {message_id} was delivered to another wait, or removed")


class SqliteTasks(SqliteTable):
    """Human tasks."""

    async def get(self, task_id: str) -> TaskRow | None:
        row = self._row("select_task", (task_id,))
        return row_codecs.task_of(row[0]) if row else None

    async def list(self, *, limit: int = 100, beyond: str | None = None, **wanted: Unpack[TaskQuery]) -> list[TaskRow]:
        states = wanted.get("states")
        values = {
            "states": json.dumps(list(states)) if states else None,
            "role": wanted.get("role"),
            "user": wanted.get("user"),
            "for_anybody": wanted.get("for_anybody", False),
            "execution_id": wanted.get("execution_id"),
            "limit": limit,
            "beyond": beyond,
        }
        return self._decoded(lambda row: row_codecs.task_of(row[0]), "select_tasks", values)


class SqliteRequests(SqliteTable):
    """Requests to the process that drives an execution."""

    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        with self._explained():
            done = self._db.execute(QUERIES["insert_request"], (execution_id, action, reason, at))
        assert done.lastrowid is not None
        return done.lastrowid

    async def pending(self) -> list[RequestRow]:
        return [row_codecs.struct_of(RequestRow, row) for row in self._rows("select_pending_requests")]

    async def get(self, request_id: int) -> RequestRow | None:
        row = self._row("select_request", (request_id,))
        return row_codecs.struct_of(RequestRow, row) if row else None

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        self._change("answer_request", (answer, at, request_id))


# Notices in the store's SQLite file.


class SqliteNotices(SqliteTable):
    async def get(self, notice_id: str) -> NoticeRow | None:
        row = self._row("select_notice", (notice_id,))
        return row_codecs.notice_of(row) if row else None

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
        return self._decoded(row_codecs.notice_of, "select_notices", values)

    async def claim(self, *, now: float, until: float, limit: int) -> Sequence[NoticeRow]:
        # Reading first: a server asks every second, and most of the time a write transaction would be for nothing.
        if self._row("select_due_notice", (now,)) is None:
            return []
        with self._explained(), transaction(self._db):
            values = {"now": now, "until": until, "limit": limit}
            taken = [one for (one,) in self._db.execute(QUERIES["claim_notices"], values).fetchall()]
            for notice_id in taken:
                self._db.execute(QUERIES["count_folded"], {"leader": notice_id})
                self._db.execute(QUERIES["fold_notices"], {"leader": notice_id, "now": now})
            rows = [self._db.execute(QUERIES["select_notice"], (one,)).fetchone() for one in taken]
        return [row_codecs.notice_of(row) for row in rows]

    async def settle(self, notice_id: str, *, attempts: int, settlement: Settlement) -> bool:
        ended_at = None if settlement.state is NoticeState.PENDING else settlement.at
        values = (settlement.state.value, settlement.due_at, settlement.error, ended_at, notice_id, attempts)
        return self._change("settle_notice", values) == 1

    async def send_again(self, notice_id: str, *, now: float) -> bool:
        return self._change("revive_notice", (now, notice_id)) == 1

    async def tally(self) -> dict[str, int]:
        return dict(self._rows("count_notices"))

    async def sweep(self, *, before: float, states: Collection[NoticeState]) -> int:
        return self._change("sweep_notices", (before, json.dumps(list(states))))
