"""What `noetl run` is to run: a file that is read and checked, or a playbook of the store's catalogue (CLI-02).

A name is a file if there is one; otherwise it is looked for among the playbooks that were registered or run before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.cli.accepted_text import accepted
from noetl.cli.files import STDIN, Unreadable, read_source
from noetl.cli.queries import is_there, refusals

if TYPE_CHECKING:
    from noetl.base.diagnostics import Diagnostic
    from noetl.net.net import Net

_MEMORY = ":memory:"


class Runnable(msgspec.Struct, frozen=True):
    """What is to be run. `origin` is the file it was read from; `diagnostics` are what checking that file found."""

    net: Net
    origin: Path | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


def runnable(
    name: str, db: str | None, version: str | None, *, strict: bool = False, migrates: bool = False
) -> Runnable | None:
    """The playbook of this name; None when it is refused, which is told then."""
    is_file = name == STDIN or Path(name).exists()
    if is_file and version is not None:
        raise click.UsageError("--version chooses among registered playbooks, and this is a file")
    if not is_file and (net := registered(name, db, version)) is not None:
        return Runnable(net)
    if version is not None:
        raise Unreadable(f'{name}: no version "{version}" of such a playbook is registered in this store')
    if not is_file:
        raise Unreadable(
            f"{name}: there is no such file, and no playbook of this path is registered here{_way_out(name, db)}"
        )
    checked = accepted(read_source(name), strict=strict, migrates=migrates)
    if checked is None or checked.net is None:
        return None
    return Runnable(checked.net, None if name == STDIN else Path(name), checked.diagnostics)


def _way_out(path: str, db: str | None) -> str:
    """The nearest registered playbook, where there is a store to look into."""
    if db == _MEMORY or not is_there(db):
        return ""
    from noetl.operations.catalog import nearest_path_text
    from noetl.store.open_store import open_store

    async def looked_up() -> str:
        store, _ = await open_store(db, reading_will_do=True)
        try:
            return await nearest_path_text(store.catalog, path)
        finally:
            await store.close()

    with refusals():
        return asyncio.run(looked_up())


def registered(path: str, db: str | None, version: str | None) -> Net | None:
    """The net of a playbook in the store's catalogue."""
    if db == _MEMORY or not is_there(db):
        return None
    from noetl.net.encoding import from_json
    from noetl.store.open_store import open_store

    async def looked_up() -> Net | None:
        store, _ = await open_store(db)
        try:
            row = await store.catalog.find(path, version)
            return from_json(await store.net(row.net_hash)) if row is not None else None
        finally:
            await store.close()

    with refusals():
        return asyncio.run(looked_up())
