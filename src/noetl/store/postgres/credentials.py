"""Sealed credentials in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.events.credentials import SealedCredential
from noetl.store.postgres.database import Database


class PostgresCredentials:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, name: str) -> SealedCredential | None:
        row = await self._db.row("select_credential", name)
        return _credential(row) if row else None

    async def list(self) -> list[SealedCredential]:
        return [_credential(row) for row in await self._db.rows("select_credentials")]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        values = msgspec.structs.astuple(row)
        if over is None:
            return await self._db.change("insert_credential", *values) == 1
        if over.name != row.name:
            return False
        return await self._db.change("replace_credential", *values, over.version, over.key_id) == 1

    async def delete(self, name: str) -> bool:
        return await self._db.change("delete_credential", name) == 1


def _credential(row: Sequence[Any]) -> SealedCredential:
    return SealedCredential(**dict(zip(SealedCredential.__struct_fields__, row, strict=True)))
