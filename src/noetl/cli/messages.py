"""`noetl message`, `signal` and `event`: input for executions from outside (CLI-05, MSG-02 to MSG-06).

Lists show the size of undelivered messages, not their content. Deleting one is audited, on a server and on a store.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.base.errors import NotFoundError, SettledError
from noetl.cli import terminal
from noetl.cli.completion import EXECUTION
from noetl.cli.connection import ask, find_execution_id, place_options
from noetl.cli.queries import ID_HELP, REFUSED, QueryRefused, id_argument

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import StoredMessage


@click.group("message")
@terminal.color_option
def message_command() -> None:
    """Send messages to executions that wait for them; list and delete undelivered ones."""


@message_command.command("send")
@click.argument("name")
@click.option(
    "--correlation",
    "-c",
    multiple=True,
    metavar="KEY=VALUE",
    help="Keys that select the receiver; a value that is JSON is read as JSON.",
)
@click.option("--payload", metavar="JSON|@FILE|@-", help="Payload of the message.")
@click.option("--id", "message_id", metavar="ID", help="Id of the message; a second one with the same id is ignored.")
@click.option("--ttl", metavar="DURATION", default="24h", show_default=True, help="How long it waits for a receiver.")
@terminal.record_output
@place_options
def send_message(
    name: str,
    correlation: tuple[str, ...],
    payload: str | None,
    message_id: str | None,
    ttl: str,
    output: str,
    db: str | None,
) -> None:
    """Send a message. It is stored, and delivered to the step that has waited for it longest, now or later.

    \b
    noetl message send approval_received -c order_id=7 --payload '{"approved": true}'
    """
    from noetl.cli.payload import pairs_from, value_from

    ttl_s, keys = _seconds(ttl), pairs_from(correlation, "--correlation")
    content = value_from(payload, "--payload")
    sent = ask(db, lambda it: it.send_message(name, keys, content, message_id=message_id, ttl=ttl_s), makes_store=True)
    terminal.print_record(sent, output, text=lambda: [_delivery_text(name, sent)])


def _seconds(ttl: str) -> float:
    from noetl.base.durations import seconds

    try:
        return seconds(ttl)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--ttl") from None


def _delivery_text(name: str, sent: dict[str, Any]) -> str:
    before, taken_by = " had been sent before and" if sent["known"] else "", sent["delivered_to"]
    where = f"was delivered to execution {taken_by}" if taken_by else f'is stored until a step waits for "{name}"'
    return terminal.visible(f"message {sent['message_id']}{before} {where}")


# The most messages that a server returns at once.
_PAGE = 1_000


@message_command.command("list")
@click.option("--name", metavar="NAME", help="Only messages of this name.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most rows to list.")
@terminal.list_output
@place_options
def list_command(name: str | None, limit: int, output: str, db: str | None) -> None:
    """List undelivered messages, the newest first, without their payloads.

    \b
    noetl message list --name approval_received
    """
    rows = ask(db, lambda it: _rows(it, name, limit))
    terminal.print_list(rows, output, key="message_id", table=lambda: _table(rows))
    if output == "table" and len(rows) == limit:
        click.echo(f"the newest {limit:,}; --limit shows more", err=True)


async def _rows(it: Operations, name: str | None, limit: int) -> list[StoredMessage]:
    rows: list[StoredMessage] = []
    cursor: str | None = None
    while len(rows) < limit:
        page = await it.messages(name=name, limit=min(_PAGE, limit - len(rows)), cursor=cursor)
        rows += page.messages
        if (cursor := page.next) is None:
            break
    return rows


def _table(rows: list[StoredMessage]) -> list[str]:
    cells = [
        (
            message.name,
            message.message_id,
            _correlation(message.correlation),
            f"{message.size_bytes:,} B",
            terminal.when(message.sent_at),
            terminal.when(message.expires_at),
        )
        for message in rows
    ]
    return terminal.columns(
        ("NAME", "ID", "CORRELATION", "SIZE", "SENT", "EXPIRES"), cells, nothing="no message is undelivered"
    )


def _correlation(keys: dict[str, Any]) -> str:
    """The keys in the form that `message send -c` accepts."""
    texts = {
        key: value if isinstance(value, str) else terminal.as_json(value, indent=-1) for key, value in keys.items()
    }
    return " ".join(f"{key}={text}" for key, text in texts.items()) or "-"


@message_command.command("delete")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--name", metavar="NAME", help="Delete all messages of this name.")
@click.option("--yes", is_flag=True, help="With --name: do not ask for confirmation.")
@place_options
def delete_command(ids: tuple[str, ...], name: str | None, yes: bool, db: str | None) -> None:
    """Delete undelivered messages, by their ids or all of a name. No execution will receive them.

    A message that was delivered or does not exist is reported, and the exit code is 4; the others are deleted.

    \b
    noetl message delete m-1 m-2
    noetl message delete --name approval_received --yes
    """
    if bool(ids) == (name is not None):
        raise click.UsageError("name messages by ID..., or use --name NAME for all of a name")
    if name is not None:
        _confirm(name, yes)
        number = ask(db, lambda it: it.delete_messages(name))
        click.echo(f'deleted {number:,} message{"" if number == 1 else "s"} "{terminal.visible(name)}"')
    elif not ask(db, lambda it: _delete(it, ids)):
        raise SystemExit(REFUSED)


def _confirm(name: str, yes: bool) -> None:
    if yes:
        return
    if not _is_at_a_terminal():
        raise click.UsageError("there is no terminal for a confirmation: use --yes to delete all of a name")
    if not click.confirm(
        f'delete all undelivered messages "{terminal.visible(name)}"? no execution will receive them', err=True
    ):
        raise QueryRefused("nothing was deleted")


def _is_at_a_terminal() -> bool:
    # A function of its own, so that tests can replace it.
    return sys.stdin.isatty()


async def _delete(it: Operations, ids: tuple[str, ...]) -> bool:
    """Delete messages by id; returns whether all were deleted. Errors of single messages are printed."""
    is_done = True
    for message_id in ids:
        try:
            await it.delete_message(message_id)
        # The error concerns this message only; try the others.
        except (NotFoundError, SettledError) as problem:
            click.echo(f"error: {terminal.visible(str(problem))}", err=True)
            is_done = False
        else:
            click.echo(f"deleted message {terminal.visible(message_id)}")
    return is_done


@click.group("signal")
@terminal.color_option
def signal_command() -> None:
    """Send signals to executions that wait for them."""


@signal_command.command("send", epilog=ID_HELP)
@click.argument("name")
@click.option("--execution", metavar="ID", type=EXECUTION, help="Send to this execution only. [default: to all]")
@click.option("--data", metavar="JSON|@FILE|@-", help="Data of the signal.")
@place_options
def send_signal(name: str, execution: str | None, data: str | None, db: str | None) -> None:
    """Send a signal to every step that waits for it now, and to rules that listen for it. It is not stored.

    \b
    noetl signal send maintenance --data '{"until": "18:00"}'
    """
    from noetl.cli.payload import value_from

    content = value_from(data, "--data")

    async def send(it: Operations) -> list[str]:
        execution_id = await find_execution_id(it, execution) if execution is not None else None
        return await it.send_signal(name, content, execution_id=execution_id)

    receivers = ask(db, send)
    if not receivers:
        click.echo(f'no execution waits for "{terminal.visible(name)}" now, and signals are not stored', err=True)
    for execution_id in receivers:
        click.echo(f"execution {execution_id} received {terminal.visible(name)}")


@click.group("event")
@terminal.color_option
def event_command() -> None:
    """Send events to executions. To read the events of an execution, see `noetl events`."""


@event_command.command("send", epilog=ID_HELP)
@id_argument
@click.argument("name")
@click.option("--data", metavar="JSON|@FILE|@-", help="Data of the event, read as event.data.")
@click.option("--key", metavar="KEY", help="Key of the event; a second one with the same key is ignored.")
@place_options
def send_event(reference: str, name: str, data: str | None, key: str | None, db: str | None) -> None:
    """Send an event to an execution: its event handlers and the rules that listen for it receive it.

    NAME is a name of your own, or one of message.received, signal.received, timer.fired.

    \b
    noetl event send last order.changed --data '{"sum": 12}' --key change-7
    """
    from noetl.cli.payload import value_from

    content = value_from(data, "--data")

    async def send(it: Operations) -> tuple[str, bool]:
        execution_id = await find_execution_id(it, reference)
        return execution_id, await it.inject(execution_id, name, content, key=key)

    execution_id, is_new = ask(db, send)
    before = "" if is_new else " before"
    click.echo(f"execution {execution_id} has received {terminal.visible(name)}{before}")
