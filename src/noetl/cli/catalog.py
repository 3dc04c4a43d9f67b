"""`noetl catalog`: which playbooks are registered, in which versions, and their texts (SRV-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import as_table, ask, reads_server_option
from noetl.cli.live_completion import PLAYBOOK
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import db_option
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.operations.api_shapes import VersionView

_version = click.option("--version", metavar="VERSION", help="Its number or its label; the newest without.")


@click.group("catalog", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Show registered playbooks. `noetl register` puts them there."""


@command.command("list")
@list_output
@db_option
@reads_server_option
def list_command(output: str, db: str | None) -> None:
    """List playbooks, each with its newest version."""
    _print(ask(db, lambda operations: operations.playbooks(limit=1000)), output)


@command.command("versions")
@click.argument("path", type=PLAYBOOK)
@list_output
@db_option
@reads_server_option
def versions_command(path: str, output: str, db: str | None) -> None:
    """List the versions of a playbook, the newest first."""
    _print(ask(db, lambda operations: operations.versions(path)), output)


@command.command("show")
@click.argument("path", type=PLAYBOOK)
@_version
@db_option
@reads_server_option
def show_command(path: str, version: str | None, db: str | None) -> None:
    """Print the text of a playbook as it was registered."""
    click.echo(ask(db, lambda operations: operations.source(path, version)), nl=False)


def _print(rows: list[VersionView], output: str) -> None:
    told = [_version_row(row) for row in rows]
    print_list(told, output, key="path", table=lambda: _table(told))


def _table(told: list[dict[str, Any]]) -> list[str]:
    if not told:
        return ["no playbooks yet: noetl register FILE"]
    table: list[tuple[Any, ...]] = [("PATH", "VERSION", "LABEL", "REGISTERED")]
    table += [(one["path"], one["version"], one["label"] or "-", one["registered_at"][:19] + "Z") for one in told]
    return as_table(table)


def _version_row(row: VersionView) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("path", "version", "label", "net_hash", "registered_at")}
