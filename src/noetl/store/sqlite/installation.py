"""What belongs to the installation and not to an execution, in the SQLite file of the store: the catalogue, key-values,
sealed credentials and the audit log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from noetl.events.secret_materials import SealedCredential
from noetl.store.audit import COLUMNS, ORIGIN, PAGE, AuditEntry, AuditRow, chained, row_values
from noetl.store.installation import CatalogRow, KeyValue, Registration, chosen, row_of
from noetl.store.sqlite.database import QUERIES, transaction


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
        return _catalog_row(row) if row else None

    async def find(self, path: str, version: str | None = None) -> CatalogRow | None:
        return self._newest(path) if version is None else chosen(await self.versions(path), version)

    async def versions(self, path: str) -> list[CatalogRow]:
        with self._explained():
            return [_catalog_row(row) for row in self._db.execute(QUERIES["select_versions"], (path,))]

    async def paths(self, *, limit: int = 100) -> list[CatalogRow]:
        with self._explained():
            return [_catalog_row(row) for row in self._db.execute(QUERIES["select_catalog"], (limit,))]

    async def origin(self, net_hash: str) -> str | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_origin"], (net_hash,)).fetchone()
        return row[0] if row else None


def _catalog_row(row: Sequence[Any]) -> CatalogRow:
    return CatalogRow(**dict(zip(CatalogRow.__struct_fields__, row, strict=True)))


class SqliteKeyValues:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def get(self, kind: str, name: str) -> KeyValue | None:
        with self._explained():
            row = self._db.execute(QUERIES["select_key_value"], (kind, name)).fetchone()
        return _key_value(row) if row else None

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        values = {"kind": kind, "prefix": prefix, "limit": limit, "beyond": beyond}
        with self._explained():
            return [_key_value(row) for row in self._db.execute(QUERIES["select_key_values"], values)]

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        with self._explained():
            if over == 0:
                done = self._db.execute(QUERIES["insert_key_value"], (kind, name, body, at))
            else:
                done = self._db.execute(QUERIES["replace_key_value"], (body, at, kind, name, over))
        is_stored = done.rowcount == 1
        return KeyValue(kind=kind, name=name, version=over + 1, body=body, updated_at=at) if is_stored else None

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        values = {"kind": kind, "name": name, "version": version}
        with self._explained():
            return self._db.execute(QUERIES["delete_key_value"], values).rowcount == 1

    async def sweep(self, kind: str, *, before: float) -> int:
        with self._explained():
            return self._db.execute(QUERIES["sweep_key_values"], (kind, before)).rowcount


def _key_value(row: Sequence[Any]) -> KeyValue:
    return KeyValue(**dict(zip(KeyValue.__struct_fields__, row, strict=True)))


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


# The audit log in the store's SQLite file; triggers refuse whatever is not a row behind the last one.
class SqliteAudit:
    """`explained` turns what SQLite cannot do into our own error."""

    def __init__(self, connection: sqlite3.Connection, explained: Callable[[], AbstractContextManager[None]]) -> None:
        self._db = connection
        self._explained = explained

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        with self._explained(), transaction(self._db):
            seq, last = self._db.execute(QUERIES["select_last_audit"]).fetchone() or (0, ORIGIN)
            rows = chained(entries, seq=seq, prev_hash=last)
            self._db.executemany(QUERIES["insert_audit"], [row_values(row) for row in rows])

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        with self._explained():
            return [_audit_row(row) for row in self._db.execute(QUERIES["select_audit"], (after, limit))]

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        with self._explained():
            found = self._db.execute(QUERIES["select_newest_audit"], {"before": before, "limit": limit})
            return [_audit_row(row) for row in found]


def _audit_row(row: Sequence[Any]) -> AuditRow:
    return AuditRow(**dict(zip(COLUMNS, row, strict=True)))
