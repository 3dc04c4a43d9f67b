"""What `noetl run` is to run: a file that is read and checked, or a playbook of the store's catalogue (CLI-02).

A name is a file if there is one; otherwise it is looked for among the playbooks that were registered or run before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.files import STDIN, Unreadable, read_source
from noetl.cli.reading import is_there, refusals

if TYPE_CHECKING:
    from noetl.net.net import Net

_MEMORY = ":memory:"


def net_of(name: str, db: str | None, version: str | None) -> tuple[Net | None, Path | None]:
    """The net, None when there are errors (which are printed then), and the file it was read from."""
    is_file = name == STDIN or Path(name).exists()
    if is_file and version is not None:
        raise click.UsageError("--version chooses among registered playbooks, and this is a file")
    if not is_file and (net := registered(name, db, version)) is not None:
        return net, None
    if version is not None:
        raise Unreadable(f'{name}: no version "{version}" of such a playbook is registered in this store')
    if not is_file:
        raise Unreadable(f"{name}: there is no such file, and no playbook of this path is registered here")
    return _checked(name), None if name == STDIN else Path(name)


def registered(path: str, db: str | None, version: str | None) -> Net | None:
    """The net of a playbook in the store's catalogue."""
    if db == _MEMORY or not is_there(db):
        return None
    from noetl.net.encoding import from_json
    from noetl.store.opening import open_store

    async def looked_up() -> Net | None:
        store, _ = await open_store(db)
        try:
            row = await store.catalog.find(path, version)
            return from_json(await store.net(row.net_hash)) if row is not None else None
        finally:
            await store.close()

    with refusals():
        return asyncio.run(looked_up())


def _checked(file: str) -> Net | None:
    from noetl.checking import check
    from noetl.tools.kinds import load_kinds

    checked = check(read_source(file), kinds=load_kinds(), proofs=False)
    if checked.net is None:
        from noetl.cli.report import print_diagnostics

        print_diagnostics(checked)
    return checked.net
