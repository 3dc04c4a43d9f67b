"""Data of the installation, not of an execution, in the SQLite file of the store: the catalogue, key-values, sealed
credentials and the audit log."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from noetl.events.secret_materials import SealedCredential
from noetl.store.audit import COLUMNS, ORIGIN, PAGE, AuditEntry, AuditRow, chained, row_values
from noetl.store.installation import CatalogRow, KeyValue, Registration, chosen, next_row
from noetl.store.row_codecs import struct_of
from noetl.store.sqlite.database import QUERIES, SqliteTable, transaction


class SqliteCatalog(SqliteTable):
    async def register(self, playbook: Registration) -> CatalogRow:
        newest = self._newest(playbook.path)
        if newest is not None and newest.net_hash == playbook.net_hash and playbook.origin in (None, newest.origin):
            return newest  # the usual case costs no write
        with self._explained(), transaction(self._db):
            return self._register_playbook(playbook)

    def _register_playbook(self, playbook: Registration) -> CatalogRow:
        newest = self._newest(playbook.path)
        if newest is not None and newest.net_hash == playbook.net_hash:
            values = (playbook.origin or newest.origin, playbook.path, newest.version)
            self._db.execute(QUERIES["move_catalog_origin"], values)
            return newest
        row = next_row(playbook, newest)
        self._db.execute(QUERIES["insert_net"], (playbook.net_hash, playbook.net))
        values_of_row = tuple(getattr(row, field) for field in CatalogRow.__struct_fields__)
        self._db.execute(QUERIES["insert_catalog"], values_of_row)
        return row

    def _newest(self, path: str) -> CatalogRow | None:
        row = self._row("select_newest_version", (path,))
        return struct_of(CatalogRow, row) if row else None

    async def find(self, path: str, version: str | None = None) -> CatalogRow | None:
        return self._newest(path) if version is None else chosen(await self.versions(path), version)

    async def versions(self, path: str) -> list[CatalogRow]:
        return [struct_of(CatalogRow, row) for row in self._rows("select_versions", (path,))]

    async def paths(self, *, limit: int = 100) -> list[CatalogRow]:
        return [struct_of(CatalogRow, row) for row in self._rows("select_catalog", (limit,))]

    async def origin(self, net_hash: str) -> str | None:
        row = self._row("select_origin", (net_hash,))
        return row[0] if row else None


class SqliteKeyValues(SqliteTable):
    async def get(self, kind: str, name: str) -> KeyValue | None:
        row = self._row("select_key_value", (kind, name))
        return struct_of(KeyValue, row) if row else None

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        values = {"kind": kind, "prefix": prefix, "limit": limit, "beyond": beyond}
        return [struct_of(KeyValue, row) for row in self._rows("select_key_values", values)]

    async def beginning(self, kind: str, prefixes: Collection[str]) -> Sequence[KeyValue]:
        values = {"kind": kind, "prefixes": json.dumps(list(prefixes))}
        return [struct_of(KeyValue, row) for row in self._rows("select_key_values_beginning", values)]

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        if over == 0:
            stored = self._change("insert_key_value", (kind, name, body, at))
        else:
            stored = self._change("replace_key_value", (body, at, kind, name, over))
        return KeyValue(kind=kind, name=name, version=over + 1, body=body, updated_at=at) if stored == 1 else None

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        values = {"kind": kind, "name": name, "version": version}
        return self._change("delete_key_value", values) == 1

    async def sweep(self, kind: str, *, before: float) -> int:
        return self._change("sweep_key_values", (kind, before))


class SqliteCredentials(SqliteTable):
    async def get(self, name: str) -> SealedCredential | None:
        row = self._row("select_credential", (name,))
        return struct_of(SealedCredential, row) if row else None

    async def list(self) -> list[SealedCredential]:
        return [struct_of(SealedCredential, row) for row in self._rows("select_credentials")]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        values = msgspec.structs.astuple(row)
        if over is None:
            return self._change("insert_credential", values) == 1
        seen = (over.name, over.version, over.key_id)
        return self._change("replace_credential", (*values[1:], *seen)) == 1

    async def delete(self, name: str) -> bool:
        return self._change("delete_credential", (name,)) == 1


# The audit log in the store's SQLite file; triggers refuse every change except appending.
class SqliteAudit(SqliteTable):
    async def append(self, entries: Sequence[AuditEntry]) -> None:
        with self._explained(), transaction(self._db):
            seq, last = self._db.execute(QUERIES["select_last_audit"]).fetchone() or (0, ORIGIN)
            rows = chained(entries, seq=seq, prev_hash=last)
            self._db.executemany(QUERIES["insert_audit"], [row_values(row) for row in rows])

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        return [_audit_row(row) for row in self._rows("select_audit", (after, limit))]

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        return [_audit_row(row) for row in self._rows("select_newest_audit", {"before": before, "limit": limit})]


def _audit_row(row: Sequence[Any]) -> AuditRow:
    return AuditRow(**dict(zip(COLUMNS, row, strict=True)))
