"""`noetl event`: put an event of one's own into an execution (MSG-06)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import reads_server_option, server_answer, server_meant
from noetl.cli.queries import ID_HELP, db_option, find_execution, id_argument, read
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.store.contract import Store


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
    if (there := server_meant(db)) is not None:
        execution_id = read(None, lambda records: find_execution(records, given)).execution_id
        is_new = server_answer(there, lambda client: client.inject(execution_id, name, said, key=key))
    else:
        execution_id, is_new = _told_here(given, name, said, key, db)
    before = "" if is_new else " before"
    click.echo(f"execution {execution_id} has been told of {visible(name)}{before}")


def _told_here(given: str, name: str, said: Any, key: str | None, db: str | None) -> tuple[str, bool]:
    from noetl.cli.requests import send_command, using
    from noetl.control.outside.report_results import check
    from noetl.engine.commands import InjectEvent

    event = InjectEvent(at=time.time(), name=name, data=said, event_key=key)

    async def sent(store: Store) -> tuple[str, bool]:
        row = await find_execution(store, given)
        return row.execution_id, check(await send_command(store, db, row.execution_id, event), what=f'event "{name}"')

    return using(db, sent)
