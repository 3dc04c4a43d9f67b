"""Sealed credentials in the store's SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from noetl.events.credentials import SealedCredential
from noetl.store.sqlite.queries import QUERIES


class SqliteCredentials:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def get(self, name: str) -> SealedCredential | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_credential"], (name,)).fetchone()
        return _credential(row) if row else None

    async def list(self) -> list[SealedCredential]:
        with self._explained():
            return [_credential(row) for row in self._db.execute(QUERIES["select_credentials"])]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        values = msgspec.structs.astuple(row)
        with self._explained():
            if over is None:
                done = self._db.execute(QUERIES["insert_credential"], values)
            else:
                seen = (over.name, over.version, over.key_id)
                done = self._db.execute(QUERIES["replace_credential"], (*values[1:], *seen))
        return done.rowcount == 1

    async def delete(self, name: str) -> bool:
        with self._explained():
            return self._db.execute(QUERIES["delete_credential"], (name,)).rowcount == 1


def _credential(row: Sequence[Any]) -> SealedCredential:
    return SealedCredential(**dict(zip(SealedCredential.__struct_fields__, row, strict=True)))
