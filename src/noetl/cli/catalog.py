"""`noetl catalog`: which playbooks are registered, in which versions, and their texts (SRV-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from noetl.cli.connection import as_table, reached, server_option
from noetl.cli.live_completion import PLAYBOOK
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import QueryRefused, db_option, refusals
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.store.catalog import Catalog

Found = TypeVar("Found")
_version = click.option("--version", metavar="VERSION", help="Its number or its label; the newest without.")


@click.group("catalog", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Show registered playbooks. `noetl register` puts them there."""


@command.command("list")
@list_output
@db_option
@server_option
def list_command(output: str, db: str | None, server: str | None) -> None:
    """List playbooks, each with its newest version."""
    _print(_looked(db, server, lambda client: client.playbooks(), lambda catalog: catalog.paths(limit=1000)), output)


@command.command("versions")
@click.argument("path", type=PLAYBOOK)
@list_output
@db_option
@server_option
def versions_command(path: str, output: str, db: str | None, server: str | None) -> None:
    """List the versions of a playbook, the newest first."""
    rows = _looked(db, server, lambda client: client.versions(path), lambda catalog: catalog.versions(path))
    if not rows:
        raise QueryRefused(f'no playbook "{visible(path)}" is registered here')
    _print(rows, output)


@command.command("show")
@click.argument("path", type=PLAYBOOK)
@_version
@db_option
@server_option
def show_command(path: str, version: str | None, db: str | None, server: str | None) -> None:
    """Print the text of a playbook as it was registered."""

    async def stored_source(catalog: Catalog) -> str:
        row = await catalog.find(path, version)
        if row is None or row.source is None:
            which = f'no version "{visible(version)}" of' if version is not None else "no"
            raise QueryRefused(f'{which} playbook "{visible(path)}" is registered here')
        return row.source

    click.echo(_looked(db, server, lambda client: client.source(path, version), stored_source), nl=False)


def _looked(
    db: str | None,
    server: str | None,
    there: Callable[[Any], Found],
    here: Callable[[Catalog], Awaitable[Found]],
) -> Found:
    """What the server's catalogue says, or that of the store file."""
    with refusals():
        if (found := reached(server, db)) is not None:
            with found.client() as client:
                return there(client)
        return asyncio.run(_in_file(db, here))


async def _in_file(db: str | None, here: Callable[[Catalog], Awaitable[Found]]) -> Found:
    from noetl.cli.queries import LOOKED_FOR, is_there, place_of
    from noetl.store.open_store import open_store

    if not is_there(db):
        raise QueryRefused(f"there is no store {place_of(db)}{LOOKED_FOR}")
    store, _ = await open_store(db, reading_will_do=True)
    try:
        return await here(store.catalog)
    finally:
        await store.close()


def _print(rows: list[Any], output: str) -> None:
    told = [_version_row(row) for row in rows]
    print_list(told, output, key="path", table=lambda: _table(told))


def _table(told: list[dict[str, Any]]) -> list[str]:
    if not told:
        return ["no playbooks yet: noetl register FILE"]
    table: list[tuple[Any, ...]] = [("PATH", "VERSION", "LABEL", "REGISTERED")]
    table += [(one["path"], one["version"], one["label"] or "-", one["registered_at"][:19] + "Z") for one in told]
    return as_table(table)


def _version_row(row: Any) -> dict[str, Any]:
    from noetl.base.clock import rfc3339

    at = row.registered_at
    return {
        "path": row.path,
        "version": row.version,
        "label": row.label,
        "net_hash": row.net_hash,
        "registered_at": at if isinstance(at, str) else rfc3339(at),
    }
