"""Catalog: playbooks by path, in versions. What is registered stays as it was (SRV-10)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from noetl.net.net import Net, content_hash, to_json

NEWEST = "latest"  # a version that people write for the newest one, as for none


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
    playbooks are looked for beside that file."""

    path: str
    net_hash: str
    net: bytes
    label: str | None = None
    source: str | None = None
    origin: str | None = None
    at: float

    @classmethod
    def of(cls, net: Net, *, at: float, source: str | None = None, origin: Path | None = None) -> Registration:
        return cls(
            path=net.path,
            net_hash=content_hash(net),
            net=to_json(net),
            label=net.version,
            source=source,
            origin=str(origin.absolute()) if origin is not None else None,
            at=at,
        )


class Catalog(Protocol):
    async def register(self, playbook: Registration) -> CatalogRow:
        """A new version, durably, unless the newest one has the same content: then that one."""

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
        rows.append(row_of(playbook, len(rows) + 1))
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


def row_of(playbook: Registration, version: int) -> CatalogRow:
    return CatalogRow(
        path=playbook.path,
        version=version,
        net_hash=playbook.net_hash,
        label=playbook.label,
        source=playbook.source,
        origin=playbook.origin,
        registered_at=playbook.at,
    )


def chosen(newest_first: list[CatalogRow], version: str | None) -> CatalogRow | None:
    """The version that is asked for; without one, the newest."""
    if version is None:
        return newest_first[0] if newest_first else None
    numbered = (row for row in newest_first if str(row.version) == version)
    labelled = (row for row in newest_first if row.label == version)
    return next(numbered, None) or next(labelled, None)
