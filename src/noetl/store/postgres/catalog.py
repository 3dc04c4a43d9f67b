"""The catalogue of playbooks in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.store.catalog import CatalogRow, Registration, chosen, row_of
from noetl.store.postgres.database import Database
from noetl.store.postgres.queries import QUERIES


class PostgresCatalog:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._looks: dict[str, asyncio.Task[CatalogRow | None]] = {}  # about to begin

    async def register(self, playbook: Registration) -> CatalogRow:
        newest = await self._newest(playbook.path)
        if newest is not None and newest.net_hash == playbook.net_hash and playbook.origin in (None, newest.origin):
            return newest  # the usual case costs no write
        return await self._db.run_in_transaction(lambda connection: _registered(connection, playbook), repeats=True)

    async def _newest(self, path: str) -> CatalogRow | None:
        """Who asks for the same at the same moment shares the answer: a crowd of starts costs a look, not one each."""
        look = self._looks.get(path)
        if look is None:
            look = self._looks[path] = asyncio.ensure_future(self._newest_version(path))
        return await asyncio.shield(look)  # whoever goes away takes nothing from the others

    async def _newest_version(self, path: str) -> CatalogRow | None:
        await asyncio.sleep(0)
        del self._looks[path]  # who comes from now on may know of a newer one
        row = await self._db.row("select_newest_version", path)
        return _row(row) if row else None

    async def find(self, path: str, version: str | None = None) -> CatalogRow | None:
        return await self._newest(path) if version is None else chosen(await self.versions(path), version)

    async def versions(self, path: str) -> list[CatalogRow]:
        return [_row(row) for row in await self._db.rows("select_versions", path)]

    async def paths(self, *, limit: int = 100) -> list[CatalogRow]:
        return [_row(row) for row in await self._db.rows("select_catalog", limit)]

    async def origin(self, net_hash: str) -> str | None:
        found: str | None = await self._db.value("select_origin", net_hash)
        return found


async def _registered(connection: Any, playbook: Registration) -> CatalogRow:
    await connection.execute(QUERIES["lock_path"], playbook.path)  # versions count without a gap
    there = await connection.fetchrow(QUERIES["select_newest_version"], playbook.path)
    newest = _row(there) if there else None
    if newest is not None and newest.net_hash == playbook.net_hash:
        values = (playbook.origin or newest.origin, playbook.path, newest.version)
        await connection.execute(QUERIES["move_catalog_origin"], *values)
        return newest
    row = row_of(playbook, newest.version + 1 if newest is not None else 1)
    await connection.execute(QUERIES["insert_net"], playbook.net_hash, playbook.net)
    await connection.execute(QUERIES["insert_catalog"], *msgspec.structs.astuple(row))
    return row


def _row(row: Sequence[Any]) -> CatalogRow:
    return CatalogRow(**dict(zip(CatalogRow.__struct_fields__, row, strict=True)))
