"""`noetl register`: put playbooks into the store's catalogue, where others find them by their path (CLI-02, SRV-10)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.accepted_text import accepted, accepting_options
from noetl.cli.connection import reached, server_option
from noetl.cli.files import read_source
from noetl.cli.queries import db_option, refusals
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.base.source import Source
    from noetl.cli.connection import Reached
    from noetl.client.models import PlaybookInfo
    from noetl.net.net import Net
    from noetl.store.catalog import CatalogRow

    Row = tuple[CatalogRow | PlaybookInfo, list[str]]  # a version, and the credentials of its notices that are absent
    Accepted = tuple[Source, Net, Path]  # a text as it is registered, its net, and the file it was read from

INVALID = 3


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE|- …")
@accepting_options
@db_option
@server_option
@color_option
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], strict: bool, migrate: bool, db: str | None, server: str | None
) -> None:
    """Check playbooks and put them into the catalogue, each as a new version unless it is there already.

    Nothing is registered when one of them has errors; the exit code is 3 then. Warnings go to standard error.
    """
    read = [accepted(source, strict=strict, migrates=migrate) for source in map(read_source, files)]
    nets = [
        (checked.source, checked.net, Path(file))
        for file, checked in zip(files, read, strict=True)
        if checked is not None and checked.net is not None
    ]
    if len(nets) < len(read):
        ctx.exit(INVALID)
    there = reached(server, db)
    with refusals():
        rows = asyncio.run(_registered(nets, db)) if there is None else _registered_there(nets, there)
    for row, absent in rows:
        click.echo(f"{visible(row.path)} version {row.version}")
        for name in map(visible, absent):
            message = f'warning: a notice of {visible(row.path)} names the credential "{name}", which is not stored yet'
            click.echo(f"{message}: noetl credential set {name}", err=True)


def _registered_there(nets: list[Accepted], there: Reached) -> list[Row]:
    with there.client() as client:
        told = [client.register(source.text) for source, _, _ in nets]
    return [(one, one.absent_credentials) for one in told]


async def _registered(nets: list[Accepted], db: str | None) -> list[Row]:
    import time

    from noetl.operations.catalog import absent_notice_credentials, register_playbook
    from noetl.store.open_store import open_store

    store, _ = await open_store(db)
    try:
        rows: list[Row] = []
        for source, net, file in nets:
            origin = file if file.exists() else None  # not so for standard input
            row = await register_playbook(store, net, source=source.text, at=time.time(), origin=origin)
            rows.append((row, await absent_notice_credentials(store, net)))
        return rows
    finally:
        await store.close()
