"""`noetl signal`: broadcast to everybody who listens now (CLI-05, MSG-05)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import Reached, reads_server_option, server_answer, server_meant
from noetl.cli.live_completion import EXECUTION
from noetl.cli.queries import ID_HELP, db_option, find_execution, read
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.store.contract import Store


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
    there = server_meant(db)
    heard = _told_here(name, execution, said, db) if there is None else _told_there(there, name, execution, said)
    if not heard:
        click.echo(f'nobody listens for "{visible(name)}" now, and signals are not kept', err=True)
    for execution_id in heard:
        click.echo(f"execution {execution_id} heard {visible(name)}")


def _told_there(there: Reached, name: str, execution: str | None, said: Any) -> list[str]:
    meant = (
        read(None, lambda records: find_execution(records, execution)).execution_id if execution is not None else None
    )
    return server_answer(there, lambda client: client.send_signal(name, said, execution_id=meant))


def _told_here(name: str, execution: str | None, said: Any, db: str | None) -> list[str]:
    from noetl.base.ids import uuid7
    from noetl.cli.requests import tell_each, using
    from noetl.control.outside.report_results import check
    from noetl.engine.commands import DeliverSignal

    signal = DeliverSignal(at=time.time(), signal_id=uuid7(time.time()), name=name, data=said)

    async def sent(store: Store) -> list[str]:
        ids = await _audience(store, name, execution)
        told = await tell_each(store, db, [(one, signal) for one in ids])
        if execution is not None:
            check(told[0], what=f'signal "{name}"')
        return [one for one, answer in zip(ids, told, strict=True) if answer.verdict == "accepted"]

    return using(db, sent)


async def _audience(store: Store, name: str, execution: str | None) -> list[str]:
    from noetl.control.outside.subscriptions import Subscriptions

    if execution is not None:
        return [(await find_execution(store, execution)).execution_id]
    return await Subscriptions(store).of_signal(name)
