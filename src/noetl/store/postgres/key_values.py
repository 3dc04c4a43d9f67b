"""The key-value table of an installation in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.store.key_values import KeyValue
from noetl.store.postgres.database import Database


class PostgresKeyValues:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, kind: str, name: str) -> KeyValue | None:
        row = await self._db.row("select_thing", kind, name)
        return _key_value(row) if row else None

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        return [_key_value(row) for row in await self._db.rows("select_things", kind, prefix, beyond, limit)]

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        if over == 0:
            stored = await self._db.change("insert_thing", kind, name, body, at)
        else:
            stored = await self._db.change("replace_thing", kind, name, body, at, over)
        return KeyValue(kind=kind, name=name, version=over + 1, body=body, updated_at=at) if stored == 1 else None

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        return await self._db.change("delete_thing", kind, name, version) == 1

    async def sweep(self, kind: str, *, before: float) -> int:
        return await self._db.assign("sweep_things", kind, before)


def _key_value(row: Sequence[Any]) -> KeyValue:
    return KeyValue(**dict(zip(KeyValue.__struct_fields__, row, strict=True)))
