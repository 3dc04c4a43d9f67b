"""`noetl signal`: broadcast to everybody who listens now (CLI-05, MSG-05)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import ask, find_execution_id, reads_server_option
from noetl.cli.live_completion import EXECUTION
from noetl.cli.queries import ID_HELP, db_option
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations


@click.group("signal", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Send signals to executions that listen for them."""


@command.command("send", epilog=ID_HELP)
@click.argument("name")
@click.option("--execution", metavar="ID", type=EXECUTION, help="Only to this one; without it, to all.")
@click.option("--data", metavar="JSON|@FILE|@-", help="What the signal says.")
@db_option
@reads_server_option
def send(name: str, execution: str | None, data: str | None, db: str | None) -> None:
    """Broadcast a signal: every step that waits for it goes on, and rules that listen see it. It is not kept for
    later.

    \b
    noetl signal send maintenance --data '{"until": "18:00"}'
    """
    from noetl.cli.arguments import value_from

    said = value_from(data, "--data")

    async def heard_by(it: Operations) -> list[str]:
        meant = await find_execution_id(it, execution) if execution is not None else None
        return await it.send_signal(name, said, execution_id=meant)

    heard = ask(db, heard_by)
    if not heard:
        click.echo(f'nobody listens for "{visible(name)}" now, and signals are not kept', err=True)
    for execution_id in heard:
        click.echo(f"execution {execution_id} heard {visible(name)}")
