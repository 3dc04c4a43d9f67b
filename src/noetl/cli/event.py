"""`noetl event`: put an event of one's own into an execution (MSG-06)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import ask, find_execution_id, reads_server_option
from noetl.cli.queries import ID_HELP, db_option, id_argument
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations


@click.group("event", context_settings={"help_option_names": ["-h", "--help"]})
@color_option
def command() -> None:
    """Put events into executions. To read those they have, see `noetl events`."""


@command.command("send", epilog=ID_HELP)
@id_argument
@click.argument("name")
@click.option("--data", metavar="JSON|@FILE|@-", help="What the event says, read as event.data.")
@click.option("--key", metavar="KEY", help="Sent again under the same key, it counts once.")
@db_option
@reads_server_option
def send(given: str, name: str, data: str | None, key: str | None, db: str | None) -> None:
    """Put an event into an execution: its rules that listen, and its handlers, see it.

    NAME is any word that is no event of the system, or one of message.received, signal.received, timer.fired.

    \b
    noetl event send last order.changed --data '{"sum": 12}' --key change-7
    """
    from noetl.cli.arguments import value_from

    said = value_from(data, "--data")

    async def injected(it: Operations) -> tuple[str, bool]:
        execution_id = await find_execution_id(it, given)
        return execution_id, await it.inject(execution_id, name, said, key=key)

    execution_id, is_new = ask(db, injected)
    before = "" if is_new else " before"
    click.echo(f"execution {execution_id} has been told of {visible(name)}{before}")
