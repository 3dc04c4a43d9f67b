"""The catalogue: registering playbooks, their versions and texts (SRV-10)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.diagnostics import is_template, nearest_word
from noetl.base.errors import NotFoundError, ReplacedError
from noetl.control.schedules import ScheduleStore
from noetl.net.net import Net, from_json
from noetl.operations.api_shapes import PlaybookInfo, PlaybookStep, VersionView
from noetl.store.contract import Store
from noetl.store.installation import NEWEST, Catalog, CatalogRow, Registration

# Paths of the catalogue that an unknown path is compared with for "did you mean".
_COMPARED = 1_000
# Playbooks whose steps are searched, in the order of their paths.
_SEARCHED = 1_000
# Who registered a version, by the id of the version: the catalogue itself is also written without a server.
_REGISTERED_BY = "registered_by"
# A message repeats no more characters of an unknown name than this.
_SHOWN = 200


class _StepName(msgspec.Struct):
    name: str


class _StepNames(msgspec.Struct):
    """A stored net of which only the names of its steps are decoded."""

    transitions: tuple[_StepName, ...] = ()


class RegisteredVersion(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is false when the newest version had the same content. `absent_credentials` are credentials that its
    notices name and that are not stored yet."""

    row: CatalogRow
    created: bool
    absent_credentials: list[str]

    def info(self) -> PlaybookInfo:
        fields = version_fields(self.row)
        return PlaybookInfo(**fields, created=self.created, absent_credentials=self.absent_credentials)


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """`opened_from` is the id of the version that a text was made from, "" for a new text: the newest version must be
    that one. Unless `may_remove`, a schedule and notifications of the newest version must be in the new one."""

    opened_from: str | None = None
    may_remove: bool = True

    def version_of(self, path: str) -> int | None:
        """The version that must be the newest one of `path`, 0 for none. A text opened from another path is new."""
        if self.opened_from is None:
            return None
        before, _, version = self.opened_from.rpartition("@")
        return int(version) if before == path and version.isdecimal() else 0


ANY = Conditions()


async def register_playbook(
    store: Store,
    net: Net,
    *,
    source: str,
    at: float,
    origin: Path | None = None,
    schedule: bool = True,
    conditions: Conditions = ANY,
    actor: str | None = None,
) -> RegisteredVersion:
    """Register a new version, unless the newest one has the same content. Its schedule applies from now on (TMR-01).
    With `schedule` false, the schedule of this path keeps running the version it names. ReplacedError where the
    conditions do not hold."""
    # For an equal text the store returns the existing version. The version before the call is needed to notice that.
    before = await store.catalog.find(net.path)
    wanted = Registration.of(net, at=at, source=source, origin=origin, over=conditions.version_of(net.path))
    if not conditions.may_remove and before is not None:
        await _refuse_removals(store, before, net, wanted, schedule=schedule)
        # The removed parts were determined from this version, so no other version may come between.
        wanted = msgspec.structs.replace(wanted, over=before.version if wanted.over is None else wanted.over)
    row = await store.catalog.register(wanted)
    if schedule:
        await ScheduleStore(store.key_values).enter(net, row, at=at)
    created = before is None or before.version != row.version
    if created and actor is not None:
        name = catalog_id(row.path, row.version)
        await store.key_values.put(_REGISTERED_BY, name, actor.encode(), over=0, at=at)
    return RegisteredVersion(row=row, created=created, absent_credentials=await _absent_credentials(store, net))


async def _refuse_removals(store: Store, newest: CatalogRow, net: Net, wanted: Registration, *, schedule: bool) -> None:
    if newest.net_hash == wanted.net_hash:
        return
    removed: dict[str, str] = {}
    stored = await ScheduleStore(store.key_values).find(net.path) if schedule and net.trigger is None else None
    if stored is not None:
        removed["schedule"] = f"{stored.cron} ({stored.timezone})"
    before = from_json(await store.net(newest.net_hash))
    events = {rule.event for rule in before.notifications} - {rule.event for rule in net.notifications}
    if events:
        removed["notifications"] = ", ".join(sorted(events))
    if removed:
        what = " and ".join(f"the {name} {value}" for name, value in removed.items())
        message = f'this text removes from "{net.path}" {what}'
        # An author is asked once, for a newer version as well.
        is_newest = wanted.over in (None, newest.version)
        newer = "" if is_newest else f"; its newest version is {newest.version}"
        raise ReplacedError(message + newer, path=net.path, version=newest.version, removed=removed)


async def _absent_credentials(store: Store, net: Net) -> list[str]:
    """Credentials that the notices under `on` name and that are not stored yet. They cause a warning, not a refusal:
    the credential may be stored after the playbook."""
    auths = (where.options.get("auth") for rule in net.notifications for where in rule.notify)
    names = dict.fromkeys(name for name in auths if isinstance(name, str) and not is_template(name))
    return [name for name in names if await store.credentials.get(name) is None]


async def registered_version(catalog: Catalog, path: str, version: str | int | None = None) -> CatalogRow:
    """The version with this number or label, by default the newest. NotFoundError says whether path or version is
    unknown."""
    wanted = None if version in (None, NEWEST) else str(version)
    row = await catalog.find(path, wanted)
    if row is not None:
        return row
    if wanted is not None and await catalog.find(path) is not None:
        raise NotFoundError(
            f'"{path}" has no version "{_shortened_text(wanted)}": noetl catalog versions {path} lists them'
        )
    raise await _no_playbook(catalog, path)


async def playbook_versions(store: Store, path: str) -> list[VersionView]:
    """The versions of a playbook, the newest first, with who registered each."""
    rows = await store.catalog.versions(path)
    if not rows:
        raise await _no_playbook(store.catalog, path)
    return await _with_authors(store, rows, [catalog_id(path, "")])


async def newest_versions(store: Store, *, limit: int) -> list[VersionView]:
    """The newest version of each playbook, by path, with who registered it."""
    rows = await store.catalog.paths(limit=limit)
    return await _with_authors(store, rows, [catalog_id(row.path, row.version) for row in rows])


async def _with_authors(store: Store, rows: Sequence[CatalogRow], prefixes: Sequence[str]) -> list[VersionView]:
    """Views of versions whose ids begin with one of `prefixes`. One query, however many there are."""
    noted = await store.key_values.beginning(_REGISTERED_BY, prefixes)
    authors = {one.name: one.body.decode() for one in noted}
    return [
        VersionView(**version_fields(row), registered_by=authors.get(catalog_id(row.path, row.version))) for row in rows
    ]


async def matching_steps(store: Store, text: str, *, limit: int) -> list[PlaybookStep]:
    """Steps of the newest versions whose names contain every word of `text`, in any case, by path."""
    words = text.lower().split()
    found: list[PlaybookStep] = []
    if not words:
        return found
    for row in await store.catalog.paths(limit=_SEARCHED):
        # Authors name their steps in the text, so the nets of most playbooks need not be read.
        if row.source is not None and not all(word in row.source.lower() for word in words):
            continue
        net = msgspec.json.decode(await store.net(row.net_hash), type=_StepNames)
        names = [one.name for one in net.transitions if all(word in one.name.lower() for word in words)]
        found += [PlaybookStep(path=row.path, step=name) for name in names]
        if len(found) >= limit:
            break
    return found[:limit]


async def playbook_source(catalog: Catalog, path: str, version: str | int | None = None) -> str:
    """The text as it was registered. NotFoundError for a version that was registered as a net without its text."""
    row = await registered_version(catalog, path, version)
    if row.source is None:
        raise NotFoundError(f'playbook "{catalog_id(path, row.version)}" was registered without its text')
    return row.source


def version_fields(row: CatalogRow) -> dict[str, Any]:
    return {
        "path": row.path,
        "version": row.version,
        "label": row.label,
        "catalog_id": catalog_id(row.path, row.version),
        "net_hash": row.net_hash,
        "registered_at": rfc3339(row.registered_at),
    }


def catalog_id(path: str, version: int | str) -> str:
    """One name for path and version of a playbook (SRV-02)."""
    return f"{path}@{version}"


async def _no_playbook(catalog: Catalog, path: str) -> NotFoundError:
    return NotFoundError(f'there is no playbook "{_shortened_text(path)}" here{await nearest_path_text(catalog, path)}')


async def nearest_path_text(catalog: Catalog, path: str) -> str:
    """The advice for an unknown path, as the end of an error message."""
    if not await catalog.paths(limit=1):
        return ": nothing is registered yet (noetl register FILE)"
    guess = await nearest_path(catalog, path)
    suggestion = f'did you mean "{guess}"? ' if guess else ""
    return f": {suggestion}noetl catalog list shows the registered playbooks"


async def nearest_path(catalog: Catalog, path: str) -> str | None:
    """The registered path that was probably meant."""
    return nearest_word(_shortened_text(path), [row.path for row in await catalog.paths(limit=_COMPARED)])


def _shortened_text(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
