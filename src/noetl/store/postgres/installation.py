"""Data of the installation, not of an execution, in PostgreSQL: the catalogue, key-values, sealed credentials and
the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec

from noetl.events.secret_materials import SealedCredential
from noetl.store.audit import ORIGIN, PAGE, AuditEntry, AuditRow, chained
from noetl.store.installation import CatalogRow, KeyValue, Registration, chosen, next_row
from noetl.store.postgres.database import QUERIES, Database
from noetl.store.row_codecs import struct_of


class PostgresCatalog:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._looks: dict[str, asyncio.Task[CatalogRow | None]] = {}  # about to begin

    async def register(self, playbook: Registration) -> CatalogRow:
        newest = await self._newest(playbook.path)
        if newest is not None and newest.net_hash == playbook.net_hash and playbook.origin in (None, newest.origin):
            return newest  # the usual case costs no write
        return await self._db.run_in_transaction(
            lambda connection: _register_playbook(connection, playbook), repeats=True
        )

    async def _newest(self, path: str) -> CatalogRow | None:
        """Concurrent callers that ask for the same path share one query: many starts at once cost one, not one each."""
        look = self._looks.get(path)
        if look is None:
            look = self._looks[path] = asyncio.ensure_future(self._newest_version(path))
        return await asyncio.shield(look)  # a caller that is cancelled does not cancel the query of the others

    async def _newest_version(self, path: str) -> CatalogRow | None:
        # One turn of the event loop: callers that are ready by then share this query.
        await asyncio.sleep(0)
        del self._looks[path]  # a caller from now on may need a newer version
        row = await self._db.row("select_newest_version", path)
        return struct_of(CatalogRow, row) if row else None

    async def find(self, path: str, version: str | None = None) -> CatalogRow | None:
        return await self._newest(path) if version is None else chosen(await self.versions(path), version)

    async def versions(self, path: str) -> list[CatalogRow]:
        return [struct_of(CatalogRow, row) for row in await self._db.rows("select_versions", path)]

    async def paths(self, *, limit: int = 100) -> list[CatalogRow]:
        return [struct_of(CatalogRow, row) for row in await self._db.rows("select_catalog", limit)]

    async def origin(self, net_hash: str) -> str | None:
        found: str | None = await self._db.value("select_origin", net_hash)
        return found


async def _register_playbook(connection: Any, playbook: Registration) -> CatalogRow:
    await connection.execute(QUERIES["lock_path"], playbook.path)  # versions count without a gap
    newest_row = await connection.fetchrow(QUERIES["select_newest_version"], playbook.path)
    newest = struct_of(CatalogRow, newest_row) if newest_row else None
    # Looked up again under the lock: another server may have registered the same text since.
    if newest is not None and newest.net_hash == playbook.net_hash:
        values = (playbook.origin or newest.origin, playbook.path, newest.version)
        await connection.execute(QUERIES["move_catalog_origin"], *values)
        return newest
    row = next_row(playbook, newest)
    await connection.execute(QUERIES["insert_net"], playbook.net_hash, playbook.net)
    await connection.execute(QUERIES["insert_catalog"], *msgspec.structs.astuple(row))
    return row


class PostgresKeyValues:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, kind: str, name: str) -> KeyValue | None:
        row = await self._db.row("select_key_value", kind, name)
        return struct_of(KeyValue, row) if row else None

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        return [
            struct_of(KeyValue, row) for row in await self._db.rows("select_key_values", kind, prefix, beyond, limit)
        ]

    async def beginning(self, kind: str, prefixes: Collection[str]) -> Sequence[KeyValue]:
        rows = await self._db.rows("select_key_values_beginning", kind, list(prefixes))
        return [struct_of(KeyValue, row) for row in rows]

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        if over == 0:
            stored = await self._db.change("insert_key_value", kind, name, body, at)
        else:
            stored = await self._db.change("replace_key_value", kind, name, body, at, over)
        return KeyValue(kind=kind, name=name, version=over + 1, body=body, updated_at=at) if stored == 1 else None

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        return await self._db.change("delete_key_value", kind, name, version) == 1

    async def sweep(self, kind: str, *, before: float) -> int:
        return await self._db.assign("sweep_key_values", kind, before)


class PostgresCredentials:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, name: str) -> SealedCredential | None:
        row = await self._db.row("select_credential", name)
        return struct_of(SealedCredential, row) if row else None

    async def list(self) -> list[SealedCredential]:
        return [struct_of(SealedCredential, row) for row in await self._db.rows("select_credentials")]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        values = msgspec.structs.astuple(row)
        if over is None:
            return await self._db.change("insert_credential", *values) == 1
        if over.name != row.name:
            return False
        return await self._db.change("replace_credential", *values, over.version, over.key_id) == 1

    async def delete(self, name: str) -> bool:
        return await self._db.change("delete_credential", name) == 1


# The audit log in PostgreSQL; triggers refuse every change except appending.
_COLUMNS = ("seq", "at", "actor", "action", "object", "address", "outcome", "prev_hash", "hash")


class PostgresAudit:
    """A single statement appends if no other server has written since. Otherwise the chain's trigger or its key refuses
    it, and it is written again under the lock."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._end: tuple[int, str] | None = None  # the last row of the chain, as far as this process knows

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        if not entries:
            return
        # Forgotten until the write has succeeded: after an error it is not known where the chain ends.
        end, self._end = self._end, None
        last = await self._db.write(lambda connection: _follow(connection, entries, *end)) if end else None
        if last is None:
            last = await self._db.run_in_transaction(lambda connection: _append(connection, entries))
        self._end = last.seq, last.hash

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        return [_audit_row(row) for row in await self._db.rows("select_audit", after, limit)]

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        return [_audit_row(row) for row in await self._db.rows("select_newest_audit", before, limit)]


async def _append(connection: Any, entries: Sequence[AuditEntry]) -> AuditRow:
    """Append after the last row, whichever server wrote it; returns the new last row."""
    await connection.execute(QUERIES["lock_audit"])  # all servers write to one chain
    seq, last = await connection.fetchrow(QUERIES["select_last_audit"]) or (0, ORIGIN)
    return await _insert(connection, chained(entries, seq=seq, prev_hash=last))


async def _follow(connection: Any, entries: Sequence[AuditEntry], seq: int, last: str) -> AuditRow | None:
    """Append after the row that this process knows as the last; None if another server has appended since."""
    try:
        return await _insert(connection, chained(entries, seq=seq, prev_hash=last))
    # Another server has appended first. The key refuses a number that is taken, the trigger a hash that is not the last
    # one.
    except (asyncpg.UniqueViolationError, asyncpg.RaiseError):
        return None


async def _insert(connection: Any, rows: list[AuditRow]) -> AuditRow:
    await connection.execute(QUERIES["insert_audit"], *zip(*map(_values, rows), strict=True))
    return rows[-1]


def _values(row: AuditRow) -> tuple[Any, ...]:
    return tuple(getattr(row, column) for column in _COLUMNS)


def _audit_row(row: Sequence[Any]) -> AuditRow:
    return AuditRow(**dict(zip(_COLUMNS, row, strict=True)))
