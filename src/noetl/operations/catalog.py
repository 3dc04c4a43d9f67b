"""The catalogue: registering playbooks, their versions and texts (SRV-10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import NotFoundError
from noetl.base.source import is_template
from noetl.control.schedule.schedule_store import ScheduleStore
from noetl.language.reading.shared_checks import nearest
from noetl.net.net import Net
from noetl.operations.api_shapes import PlaybookInfo, VersionView
from noetl.store.contract import Store
from noetl.store.installation import NEWEST, Catalog, CatalogRow, Registration

_COMPARED = 1_000  # paths of the catalogue that a misspelt one is compared with
_SHOWN = 200  # letters of a name that is not there


class RegisteredVersion(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is false when the newest version had the same content. `absent_credentials` are named by its notices
    and not stored yet."""

    row: CatalogRow
    created: bool
    absent_credentials: list[str]

    def info(self) -> PlaybookInfo:
        fields = version_fields(self.row)
        return PlaybookInfo(**fields, created=self.created, absent_credentials=self.absent_credentials)


async def register_playbook(
    store: Store, net: Net, *, source: str, at: float, origin: Path | None = None, schedule: bool = True
) -> RegisteredVersion:
    """A new version, unless the newest one has the same content. Its schedule counts from now on (TMR-01); without
    `schedule` the one that this path has goes on with the version it has."""
    before = await store.catalog.find(net.path)
    row = await store.catalog.register(Registration.of(net, at=at, source=source, origin=origin))
    if schedule:
        await ScheduleStore(store.key_values).enter(net, row, at=at)
    created = before is None or before.version != row.version
    return RegisteredVersion(row=row, created=created, absent_credentials=await _absent_credentials(store, net))


async def _absent_credentials(store: Store, net: Net) -> list[str]:
    """Credentials that the notices under `on` name and that are not stored yet. People are warned and not refused: the
    credential may well be stored after the playbook."""
    auths = (where.options.get("auth") for rule in net.notifications for where in rule.notify)
    names = dict.fromkeys(name for name in auths if isinstance(name, str) and not is_template(name))
    return [name for name in names if await store.credentials.get(name) is None]


async def registered_version(catalog: Catalog, path: str, version: str | int | None = None) -> CatalogRow:
    """The version of this number or label, the newest without. NotFoundError says which of the two is not there."""
    wanted = None if version in (None, NEWEST) else str(version)
    row = await catalog.find(path, wanted)
    if row is not None:
        return row
    if wanted is not None and await catalog.find(path) is not None:
        raise NotFoundError(f'"{path}" has no version "{_clipped(wanted)}": noetl catalog versions {path} lists them')
    raise await _no_playbook(catalog, path)


async def playbook_versions(catalog: Catalog, path: str) -> list[VersionView]:
    """The newest first."""
    rows = await catalog.versions(path)
    if not rows:
        raise await _no_playbook(catalog, path)
    return [version_view(row) for row in rows]


async def playbook_source(catalog: Catalog, path: str, version: str | int | None = None) -> str:
    """The text as it was registered; a net that came without one has none."""
    row = await registered_version(catalog, path, version)
    if row.source is None:
        raise NotFoundError(f'there is no text of playbook "{catalog_id(path, row.version)}" here')
    return row.source


def version_view(row: CatalogRow) -> VersionView:
    return VersionView(**version_fields(row))


def version_fields(row: CatalogRow) -> dict[str, Any]:
    return {
        "path": row.path,
        "version": row.version,
        "label": row.label,
        "catalog_id": catalog_id(row.path, row.version),
        "net_hash": row.net_hash,
        "registered_at": rfc3339(row.registered_at),
    }


def catalog_id(path: str, version: int) -> str:
    """What a version of a playbook is called by those who want one name for both (SRV-02)."""
    return f"{path}@{version}"


async def _no_playbook(catalog: Catalog, path: str) -> NotFoundError:
    return NotFoundError(f'there is no playbook "{_clipped(path)}" here{await nearest_path_text(catalog, path)}')


async def nearest_path_text(catalog: Catalog, path: str) -> str:
    """What to do about a path that is not there, as the end of a sentence."""
    known = [row.path for row in await catalog.paths(limit=_COMPARED)]
    if not known:
        return ": nothing is registered yet (noetl register FILE)"
    guess = nearest(_clipped(path), known)
    meant = f'did you mean "{guess}"? ' if guess else ""
    return f": {meant}noetl catalog list names what is registered"


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
