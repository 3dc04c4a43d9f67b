"""Waits and messages in the store's SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from noetl.store.contract import Commit, ConflictError
from noetl.store.sqlite.queries import QUERIES
from noetl.store.waits import MessageRow, WaitRow


class SqliteWaits:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def waiting(self, kind: str, name: str, correlations: Collection[str] | None = None) -> list[WaitRow]:
        wanted = None if correlations is None else json.dumps(list(correlations))
        values = {"kind": kind, "name": name, "correlations": wanted}
        with self._explained():
            return [_wait(row) for row in self._db.execute(QUERIES["select_waiting"], values)]

    async def of(self, execution_id: str) -> list[WaitRow]:
        with self._explained():
            return [_wait(row) for row in self._db.execute(QUERIES["select_waits_of"], (execution_id,))]

    async def keep(self, message: MessageRow) -> bool:
        with self._explained():
            return self._db.execute(QUERIES["insert_message"], _message_values(message)).rowcount == 1

    async def message(self, message_id: str) -> MessageRow | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_message"], (message_id,)).fetchone()
        return _message(row) if row else None

    async def kept(self, name: str, *, now: float) -> list[MessageRow]:
        with self._explained():
            return [_message(row) for row in self._db.execute(QUERIES["select_kept"], (name, now))]

    async def names_kept(self, *, now: float) -> list[str]:
        with self._explained():
            return [name for (name,) in self._db.execute(QUERIES["select_names_kept"], (now,))]

    async def discard(self, *, before: float) -> int:
        with self._explained():
            return self._db.execute(QUERIES["discard_messages"], (before,)).rowcount


def write_waits(db: sqlite3.Connection, commit: Commit) -> None:
    """What one commit does to waits and messages. ConflictError when a message was delivered elsewhere."""
    db.executemany(QUERIES["insert_wait"], [wait_values(wait) for wait in commit.waits])
    db.executemany(QUERIES["delete_wait"], [(wait_id,) for wait_id in commit.closed_waits])
    for message_id in commit.taken_messages:
        if db.execute(QUERIES["take_message"], (commit.execution.execution_id, message_id)).rowcount != 1:
            raise ConflictError(f"message {message_id} was delivered to another wait")


def wait_values(wait: WaitRow) -> tuple[object, ...]:
    return tuple(getattr(wait, field) for field in WaitRow.__struct_fields__)


def _wait(row: Sequence[Any]) -> WaitRow:
    return WaitRow(**dict(zip(WaitRow.__struct_fields__, row, strict=True)))


def _message_values(message: MessageRow) -> tuple[object, ...]:
    data = (msgspec.json.encode(message.correlation).decode(), msgspec.json.encode(message.payload).decode())
    return (message.message_id, message.name, *data, message.sent_at, message.expires_at, message.taken_by)


def _message(row: Sequence[Any]) -> MessageRow:
    message_id, name, correlation, payload, sent_at, expires_at, taken_by = row
    return MessageRow(
        message_id=message_id,
        name=name,
        correlation=msgspec.json.decode(correlation),
        payload=msgspec.json.decode(payload),
        sent_at=sent_at,
        expires_at=expires_at,
        taken_by=taken_by,
    )
