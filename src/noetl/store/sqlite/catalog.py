"""The catalogue of playbooks in the store's SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from noetl.store.catalog import CatalogRow, Registration, chosen, row_of
from noetl.store.sqlite.queries import QUERIES
from noetl.store.sqlite.transaction import transaction


class SqliteCatalog:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def register(self, playbook: Registration) -> CatalogRow:
        newest = self._newest(playbook.path)
        if newest is not None and newest.net_hash == playbook.net_hash and playbook.origin in (None, newest.origin):
            return newest  # the usual case costs no write
        with self._explained(), transaction(self._db):
            return self._registered(playbook)

    def _registered(self, playbook: Registration) -> CatalogRow:
        newest = self._newest(playbook.path)
        if newest is not None and newest.net_hash == playbook.net_hash:
            values = (playbook.origin or newest.origin, playbook.path, newest.version)
            self._db.execute(QUERIES["move_catalog_origin"], values)
            return newest
        row = row_of(playbook, newest.version + 1 if newest is not None else 1)
        self._db.execute(QUERIES["insert_net"], (playbook.net_hash, playbook.net))
        values_of_row = tuple(getattr(row, field) for field in CatalogRow.__struct_fields__)
        self._db.execute(QUERIES["insert_catalog"], values_of_row)
        return row

    def _newest(self, path: str) -> CatalogRow | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_newest_version"], (path,)).fetchone()
        return _row(row) if row else None

    async def find(self, path: str, version: str | None = None) -> CatalogRow | None:
        return self._newest(path) if version is None else chosen(await self.versions(path), version)

    async def versions(self, path: str) -> list[CatalogRow]:
        with self._explained():
            return [_row(row) for row in self._db.execute(QUERIES["select_versions"], (path,))]

    async def paths(self, *, limit: int = 100) -> list[CatalogRow]:
        with self._explained():
            return [_row(row) for row in self._db.execute(QUERIES["select_catalog"], (limit,))]

    async def origin(self, net_hash: str) -> str | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_origin"], (net_hash,)).fetchone()
        return row[0] if row else None


def _row(row: Sequence[Any]) -> CatalogRow:
    return CatalogRow(**dict(zip(CatalogRow.__struct_fields__, row, strict=True)))
