"""Playbook lookup: finds a nested playbook by its path (TOOL-11, O-17).

Without a version, first among the files beside the playbook that calls it, which its author is editing; then the newest
version in the catalogue. With a version, in the catalogue only. A playbook found in a file is registered, so that its
execution names a version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from noetl.base.clock import Clock
from noetl.base.errors import PlaybookError, RefusedError
from noetl.net.net import Net, from_json
from noetl.store.contract import Store
from noetl.store.installation import NEWEST, CatalogRow, Registration

_SUFFIXES = (".yaml", ".yml")
# No `..` and no leading slash can match: a path may come from the data of a run.
_PATH = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*")
_FILES = 2000  # files read in one folder tree; a larger one is no folder of playbooks


class StoreLibrary:
    """Playbooks in files and in the catalogue. `compiled` returns the net of a file, `runnable` raises when it cannot
    be run here."""

    def __init__(
        self, store: Store, clock: Clock, *, compiled: Callable[[Path], Net], runnable: Callable[[Net], None]
    ) -> None:
        self._store, self._clock = store, clock
        self._compiled, self._runnable = compiled, runnable

    async def register(self, net: Net, *, source: str | None = None, origin: Path | None = None) -> CatalogRow:
        playbook = Registration.of(net, at=self._clock.now(), source=source, origin=origin)
        return await self._store.catalog.register(playbook)

    async def find(self, path: str, version: str | None, *, beside: str) -> Net:
        """The net of a playbook. RefusedError says where it was searched, or why it cannot be run."""
        version = None if version == NEWEST else version
        net = await self._in_files(path, beside) if version is None else None
        if net is None:
            row = await self._store.catalog.find(path, version)
            if row is None:
                raise RefusedError(_not_found_text(path, version))
            net = from_json(await self._store.net(row.net_hash))
        self._runnable(net)
        return net

    async def _in_files(self, path: str, beside: str) -> Net | None:
        origin = await self._store.catalog.origin(beside)
        if origin is None:
            return None
        caller = from_json(await self._store.net(beside))
        for file in candidates(Path(origin), caller.path, path):
            try:
                net = self._compiled(file)
            except PlaybookError as problem:
                raise RefusedError(f'"{path}" cannot be run: {problem}') from problem
            if net.path == path or _is_at(file, path):
                await self.register(net, source=file.read_text("utf-8"), origin=file)
                return net
        return None


def candidates(origin: Path, caller: str, wanted: str) -> Iterator[Path]:
    """Files that may hold the playbook `wanted`, beside the file `origin` of the playbook `caller`: those named by its
    path, then all that mention it. A path may come from data, so it never leads out of the folder."""
    if not _PATH.fullmatch(wanted):
        return
    roots = dict.fromkeys([_root(origin, caller), origin.parent])
    named = [file for root in roots for suffix in _SUFFIXES if (file := root / f"{wanted}{suffix}").is_file()]
    yield from (file for file in named if file != origin)
    for root in roots:
        for file in islice(_files(root), _FILES):
            if file not in named and file != origin and _mentions(file, wanted):
                yield file


def _is_at(file: Path, wanted: str) -> bool:
    parts = Path(wanted).parts
    return file.with_suffix("").parts[-len(parts) :] == parts


def _root(origin: Path, caller: str) -> Path:
    """The folder at which catalogue paths begin, if the file is where its path says; else its own folder."""
    folder, inner = origin.parent.parts, Path(caller).parts[:-1]
    if inner and folder[-len(inner) :] == inner:
        return Path(*folder[: -len(inner)])
    return origin.parent


def _files(root: Path) -> Iterator[Path]:
    return (file for file in sorted(root.rglob("*")) if file.suffix in _SUFFIXES and file.is_file())


def _mentions(file: Path, wanted: str) -> bool:
    """Whether the text mentions the path at all. Compiling every file would take far longer."""
    try:
        return f"path: {wanted}" in file.read_text("utf-8").replace('"', "").replace("'", "")
    except (OSError, UnicodeDecodeError):
        return False


def _not_found_text(path: str, version: str | None) -> str:
    if version is not None:
        return f'no version {version} of "{path}" is registered here: noetl register FILE'
    return f'no playbook "{path}" beside the one that calls it, nor registered here: noetl register FILE'
