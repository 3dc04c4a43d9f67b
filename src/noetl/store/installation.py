"""Data of the installation, not of an execution: small values by kind and name, sealed credentials, schemas of results,
and the catalogue of playbooks. The backends keep each in a table of its own.

Small things are tokens, pools, workers, schedules, webhooks, answers under an idempotency key. A writer replaces an
entry only if it names the version that it replaces.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.base.errors import RefusedError, ReplacedError
from noetl.engine.pipeline.result_schemas import schema_problem
from noetl.events.secret_materials import SealedCredential
from noetl.net.net import Net, content_hash, to_json

_PAGE = 500  # entries that one query reads


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the table."""

    kind: str
    name: str
    # Counts from one. A change names the version it has seen, which makes every change a compare and set.
    version: int
    # JSON; each kind has a struct of its own where it is used.
    body: bytes
    updated_at: float


class KeyValues(Protocol):
    async def get(self, kind: str, name: str) -> KeyValue | None: ...

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        """By name. `beyond` is the last name of the page before."""

    async def beginning(self, kind: str, prefixes: Collection[str]) -> Sequence[KeyValue]:
        """All whose name begins with one of these, each once, by name. Costs a search for each prefix."""

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        """Store it durably in place of version `over` (0: there is none yet); None if the stored version is another
        one."""

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        """False when there was none, or not of this version."""

    async def sweep(self, kind: str, *, before: float) -> int:
        """Remove those not touched since; returns how many."""


async def each_key_value(key_values: KeyValues, kind: str, *, prefix: str = "") -> AsyncIterator[KeyValue]:
    """All entries of a kind, by name, however many there are."""
    beyond: str | None = None
    # Pages by name, not by number: entries may be deleted while they are gone through, and none is skipped then.
    while page := await key_values.list(kind, prefix=prefix, limit=_PAGE, beyond=beyond):
        for entry in page:
            yield entry
        if len(page) < _PAGE:
            return
        beyond = page[-1].name


class MemoryKeyValues:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._things: dict[tuple[str, str], KeyValue] = {}

    async def get(self, kind: str, name: str) -> KeyValue | None:
        return self._things.get((kind, name))

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        names = sorted(name for of, name in self._things if of == kind and name.startswith(prefix))
        return [self._things[kind, name] for name in names if beyond is None or name > beyond][:limit]

    async def beginning(self, kind: str, prefixes: Collection[str]) -> Sequence[KeyValue]:
        starts = tuple(prefixes)
        return [self._things[key] for key in sorted(self._things) if key[0] == kind and key[1].startswith(starts)]

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        stored = self._things.get((kind, name))
        if (stored.version if stored else 0) != over:
            return None
        thing = KeyValue(kind=kind, name=name, version=over + 1, body=body, updated_at=at)
        self._things[kind, name] = thing
        return thing

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        stored = self._things.get((kind, name))
        if stored is None or version not in (None, stored.version):
            return False
        del self._things[kind, name]
        return True

    async def sweep(self, kind: str, *, before: float) -> int:
        old = [key for key, thing in self._things.items() if key[0] == kind and thing.updated_at < before]
        for key in old:
            del self._things[key]
        return len(old)


# Credentials: sealed rows by name. The store sees no value and has no key (reliability.md §2.6).


class CredentialRows(Protocol):
    """One row per name; replacing a row names the row that it replaces (compare and set)."""

    async def get(self, name: str) -> SealedCredential | None: ...

    async def list(self) -> list[SealedCredential]:
        """All of them, by name."""

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        """Store a row durably in place of `over` (None: there is none yet). False if the stored row is another one."""

    async def delete(self, name: str) -> bool:
        """False when there was none."""


class MemoryCredentials:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._rows: dict[str, SealedCredential] = {}

    async def get(self, name: str) -> SealedCredential | None:
        return self._rows.get(name)

    async def list(self) -> list[SealedCredential]:
        return [self._rows[name] for name in sorted(self._rows)]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        if _state(self._rows.get(row.name)) != _state(over):
            return False
        self._rows[row.name] = row
        return True

    async def delete(self, name: str) -> bool:
        return self._rows.pop(name, None) is not None


def _state(row: SealedCredential | None) -> tuple[int, str] | None:
    return (row.version, row.key_id) if row is not None else None


# Schemas of results by name and version, kept on the key-value table (RES-07). A registered schema never changes.

KIND = "result_schema"
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}")
_NAMED = re.compile(r"([A-Za-z_][\w.-]{0,99})(?:@(\d{1,6}))?")


class ResultSchema(msgspec.Struct, frozen=True, kw_only=True):
    """`version` counts from one for each name."""

    name: str
    version: int
    schema: Any
    registered_at: float


async def register_schema(key_values: KeyValues, name: str, schema: Any, *, at: float) -> ResultSchema:
    """A new version, stored durably; the newest version if that has the same content. RefusedError for an invalid
    schema."""
    if not _NAME.fullmatch(name):
        raise RefusedError(f'"{name}" is not a valid schema name: letters, digits, ".", "_" and "-" are allowed')
    # In a thread: checking a schema of 1 MiB takes more than a second of processor time.
    if problem := await asyncio.to_thread(schema_problem, schema):
        raise RefusedError(problem)
    body = msgspec.json.encode(schema)
    while True:
        newest = await find_schema(key_values, name)
        if newest is not None and newest.schema == schema:
            return newest
        version = newest.version + 1 if newest is not None else 1
        if thing := await key_values.put(KIND, _key(name, version), body, over=0, at=at):
            return _read(thing)  # otherwise another process registered this version: try the next one


async def find_schema(key_values: KeyValues, named: str) -> ResultSchema | None:
    """The newest of a name, or that of a version: `orders`, `orders@2`."""
    found = _NAMED.fullmatch(named)
    if found is None:
        return None
    if found[2] is not None:
        thing = await key_values.get(KIND, _key(found[1], int(found[2])))
        return _read(thing) if thing is not None else None
    things = await key_values.list(KIND, prefix=f"{found[1]}@")
    return _read(things[-1]) if things else None


async def newest_schemas(key_values: KeyValues) -> list[ResultSchema]:
    """The newest version of each, by name."""
    rows = {one.name: one for one in map(_read, await key_values.list(KIND))}
    return list(rows.values())


def _key(name: str, version: int) -> str:
    return f"{name}@{version:06}"


def _read(thing: KeyValue) -> ResultSchema:
    name, _, version = thing.name.partition("@")
    schema = msgspec.json.decode(thing.body)
    return ResultSchema(name=name, version=int(version), schema=schema, registered_at=thing.updated_at)


# Catalog: playbooks by path, in versions. A registered version never changes (SRV-10).

NEWEST = "latest"  # people write this word for the newest version


class CatalogRow(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a playbook. `version` counts from one for each path; `label` is the author's own name for it.
    `origin` is the file it was read from, where there was one: others beside it are found by it."""

    path: str
    version: int
    net_hash: str
    label: str | None = None
    source: str | None = None
    origin: str | None = None
    registered_at: float


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A playbook to be registered: its net as JSON, the text it was compiled from, and the file that was in. Nested
    playbooks are looked for beside that file. `over` is the version that must be the newest one, 0 for none."""

    path: str
    net_hash: str
    net: bytes
    label: str | None = None
    source: str | None = None
    origin: str | None = None
    at: float
    over: int | None = None

    @classmethod
    def of(
        cls, net: Net, *, at: float, source: str | None = None, origin: Path | None = None, over: int | None = None
    ) -> Registration:
        return cls(
            path=net.path,
            net_hash=content_hash(net),
            net=to_json(net),
            label=net.version,
            source=source,
            origin=str(origin.absolute()) if origin is not None else None,
            at=at,
            over=over,
        )


class Catalog(Protocol):
    async def register(self, playbook: Registration) -> CatalogRow:
        """A new version, durably, unless the newest one has the same content: then that one. ReplacedError where the
        newest one is not the one that the registration is over."""

    async def find(self, path: str, version: str | None = None) -> CatalogRow | None:
        """The newest of a path, or that of a version: its number, else the newest of that label."""

    async def versions(self, path: str) -> list[CatalogRow]:
        """All versions of a path, the newest first."""

    async def paths(self, *, limit: int = 100) -> list[CatalogRow]:
        """The newest version of each path, by path."""

    async def origin(self, net_hash: str) -> str | None:
        """The file that a net was last registered from."""


class MemoryCatalog:
    """For tests, and for stores that need not outlive their process. `nets` is where nets are kept."""

    def __init__(self, nets: dict[str, bytes]) -> None:
        self._nets = nets
        self._rows: dict[str, list[CatalogRow]] = {}

    async def register(self, playbook: Registration) -> CatalogRow:
        rows = self._rows.setdefault(playbook.path, [])
        self._nets[playbook.net_hash] = playbook.net
        if rows and rows[-1].net_hash == playbook.net_hash:
            rows[-1] = msgspec.structs.replace(rows[-1], origin=playbook.origin or rows[-1].origin)
            return rows[-1]
        rows.append(next_row(playbook, rows[-1] if rows else None))
        return rows[-1]

    async def find(self, path: str, version: str | None = None) -> CatalogRow | None:
        return chosen(await self.versions(path), version)

    async def versions(self, path: str) -> list[CatalogRow]:
        return self._rows.get(path, [])[::-1]

    async def paths(self, *, limit: int = 100) -> list[CatalogRow]:
        return [self._rows[path][-1] for path in sorted(self._rows)][:limit]

    async def origin(self, net_hash: str) -> str | None:
        rows = [row for rows in self._rows.values() for row in rows if row.net_hash == net_hash and row.origin]
        return max(rows, key=lambda row: row.registered_at).origin if rows else None


def next_row(playbook: Registration, newest: CatalogRow | None) -> CatalogRow:
    """The row after the newest one. ReplacedError unless that is the one the registration is over."""
    version = newest.version if newest is not None else 0
    if playbook.over not in (None, version):
        found = f"its newest version is {version}" if version else "there is no version of it"
        message = f'"{playbook.path}" has changed since this text was opened: {found}'
        raise ReplacedError(message, path=playbook.path, version=version)
    return CatalogRow(
        path=playbook.path,
        version=version + 1,
        net_hash=playbook.net_hash,
        label=playbook.label,
        source=playbook.source,
        origin=playbook.origin,
        registered_at=playbook.at,
    )


def chosen(newest_first: list[CatalogRow], version: str | None) -> CatalogRow | None:
    """The requested version; the newest if none is requested."""
    if version is None:
        return newest_first[0] if newest_first else None
    numbered = (row for row in newest_first if str(row.version) == version)
    labelled = (row for row in newest_first if row.label == version)
    return next(numbered, None) or next(labelled, None)
