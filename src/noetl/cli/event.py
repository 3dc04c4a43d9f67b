"""`noetl event`: put an event of one's own into an execution (MSG-06)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from noetl.cli.reading import ID_HELP, db_option, found, id_argument
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
def send(given: str, name: str, data: str | None, key: str | None, db: str | None) -> None:
    """Put an event into an execution: its rules that listen, and its handlers, see it.

    NAME is any word that is no event of the system, or one of message.received, signal.received, timer.fired.
    """
    from noetl.cli.given import value_from
    from noetl.cli.telling import tell, using
    from noetl.engine.commands import InjectEvent
    from noetl.orchestrator.verdicts import check

    event = InjectEvent(at=time.time(), name=name, data=value_from(data, "--data"), event_key=key)

    async def sent(store: Store) -> tuple[str, bool]:
        row = await found(store, given)
        return row.execution_id, check(await tell(store, db, row.execution_id, event), what=f'event "{name}"')

    execution_id, is_new = using(db, sent)
    before = "" if is_new else " before"
    click.echo(f"execution {execution_id} has been told of {visible(name)}{before}")
