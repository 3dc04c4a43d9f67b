"""`noetl register`: put playbooks into the store's catalogue, where others find them by their path (CLI-02, SRV-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.accepted_text import accepted, accepting_options
from noetl.cli.connection import ask, reads_server_option
from noetl.cli.files import playbooks, read_source
from noetl.cli.queries import INVALID, db_option
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import PlaybookInfo


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@accepting_options
@db_option
@reads_server_option
@color_option
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], strict: bool, migrate: bool, db: str | None) -> None:
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
            click.echo(f"{message}: noetl credential set {name}", err=True)
