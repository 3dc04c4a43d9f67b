"""`noetl explain`: why an execution is where it is, in sentences, each with what would move it (beyond.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import ask, find_execution_id, is_left_alone, reads_server_option
from noetl.cli.queries import ID_HELP, as_json, db_option, id_argument, resume_hint
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations


@click.command("explain", epilog=ID_HELP)
@id_argument
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@db_option
@reads_server_option
@color_option
def command(given: str, output: str, db: str | None) -> None:
    """Say why an execution is where it is: where each token is, what it waits for, and what would move it."""
    told = ask(db, lambda operations: _explained(operations, given, db))
    if output == "json":
        click.echo(as_json(told))
        return
    click.echo(f"{told['execution_id']}  {told['status']}")
    for sentence in told["sentences"]:
        click.echo(f"  {visible(sentence)}")


async def _explained(operations: Operations, given: str, db: str | None) -> dict[str, Any]:
    execution_id = await find_execution_id(operations, given)
    told = await operations.explain(execution_id)
    if await is_left_alone(operations, execution_id):
        told["sentences"].append(f"nobody runs it now: {resume_hint(db, execution_id)}")
        told["stuck"] = True
    return told
