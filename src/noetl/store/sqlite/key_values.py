"""The key-value table of an installation in the store's SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from noetl.store.key_values import KeyValue
from noetl.store.sqlite.queries import QUERIES


class SqliteKeyValues:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def get(self, kind: str, name: str) -> KeyValue | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_thing"], (kind, name)).fetchone()
        return _key_value(row) if row else None

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        values = {"kind": kind, "prefix": prefix, "limit": limit, "beyond": beyond}
        with self._explained():
            return [_key_value(row) for row in self._db.execute(QUERIES["select_things"], values)]

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        with self._explained():
            if over == 0:
                done = self._db.execute(QUERIES["insert_thing"], (kind, name, body, at))
            else:
                done = self._db.execute(QUERIES["replace_thing"], (body, at, kind, name, over))
        is_stored = done.rowcount == 1
        return KeyValue(kind=kind, name=name, version=over + 1, body=body, updated_at=at) if is_stored else None

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        values = {"kind": kind, "name": name, "version": version}
        with self._explained():
            return self._db.execute(QUERIES["delete_thing"], values).rowcount == 1

    async def sweep(self, kind: str, *, before: float) -> int:
        with self._explained():
            return self._db.execute(QUERIES["sweep_things"], (kind, before)).rowcount


def _key_value(row: Sequence[Any]) -> KeyValue:
    return KeyValue(**dict(zip(KeyValue.__struct_fields__, row, strict=True)))
