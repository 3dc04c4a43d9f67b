"""`noetl register` and `catalog`: playbooks in the catalogue, where others find them by their path (CLI-02, SRV-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import PLAYBOOK
from noetl.cli.connection import ask, place_options, typed_place
from noetl.cli.files import accepted, accepting_options, playbooks, read_source
from noetl.cli.output_formats import columns, list_output, print_list
from noetl.cli.queries import INVALID
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import PlaybookInfo, VersionView


_version = click.option("--version", metavar="VERSION", help="Its number or its label; the newest without.")


@click.group("catalog")
@color_option
def catalog_command() -> None:
    """Show registered playbooks. `noetl register` puts them there."""


@catalog_command.command("list")
@list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List playbooks, each with its newest version."""
    _print(ask(db, lambda operations: operations.playbooks(limit=1000)), output)


@catalog_command.command("versions")
@click.argument("path", type=PLAYBOOK)
@list_output
@place_options
def versions_command(path: str, output: str, db: str | None) -> None:
    """List the versions of a playbook, the newest first."""
    _print(ask(db, lambda operations: operations.versions(path)), output)


@catalog_command.command("show")
@click.argument("path", type=PLAYBOOK)
@_version
@place_options
def show_command(path: str, version: str | None, db: str | None) -> None:
    """Print the text of a playbook as it was registered."""
    click.echo(ask(db, lambda operations: operations.source(path, version)), nl=False)


def _print(rows: list[VersionView], output: str) -> None:
    told = [_version_row(row) for row in rows]
    print_list(told, output, key="path", table=lambda: _table(told))


def _table(told: list[dict[str, Any]]) -> list[str]:
    rows = [(one["path"], one["version"], one["label"] or "-", one["registered_at"][:19] + "Z") for one in told]
    return columns(("PATH", "VERSION", "LABEL", "REGISTERED"), rows, nothing="no playbooks yet: noetl register FILE")


def _version_row(row: VersionView) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("path", "version", "label", "net_hash", "registered_at")}


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@accepting_options
@place_options
@color_option
@click.pass_context
def register_command(ctx: click.Context, files: tuple[str, ...], strict: bool, migrate: bool, db: str | None) -> None:
    """Check playbooks and put them into the catalogue, each as a new version unless it is there already.

    Of a folder, all playbooks below it are registered (*.yaml with "kind: Playbook").

    If one of them has errors, nothing is registered and the exit code is 3. Warnings go to standard error.
    """
    texts = [accepted(read_source(file), strict=strict, migrates=migrate) for file in playbooks(files)]
    checked = [one for one in texts if one is not None]
    if len(checked) < len(texts):
        ctx.exit(INVALID)

    async def registered(operations: Operations) -> list[PlaybookInfo]:
        return [await operations.register(one) for one in checked]

    for info in ask(db, registered, makes_store=True):
        path = visible(info.path)
        click.echo(f"{path} version {info.version}")
        for name in map(visible, info.absent_credentials):
            message = f'warning: a notice of {path} names the credential "{name}", which is not stored yet'
            click.echo(f"{message}: noetl credential set {name}{typed_place()}", err=True)
