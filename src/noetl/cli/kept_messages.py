"""Kept messages: `noetl message list` and `noetl message delete`, for what nobody has taken yet (MSG-03).

What a message says is not shown, only how much it is. Deleting is audited, on a server and on a store.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.base.errors import NotFoundError, SettledError
from noetl.cli.connection import ask, reads_server_option
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import REFUSED, QueryRefused, as_json, db_option
from noetl.cli.terminal import visible, when

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import StoredMessage

_PAGE = 1_000  # messages a server gives at once


@click.command("list")
@click.option("--name", metavar="NAME", help="Only messages of this name.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@list_output
@db_option
@reads_server_option
def list_command(name: str | None, limit: int, output: str, db: str | None) -> None:
    """List messages that nobody has taken yet, the newest first. What they say is not shown.

    \b
    noetl message list --name approval_received
    """
    rows = ask(db, lambda it: _rows(it, name, limit))
    print_list(rows, output, key="message_id", table=lambda: _table(rows))
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
    from noetl.cli.columns import columns

    cells = [
        (
            one.name,
            one.message_id,
            _correlation(one.correlation),
            f"{one.size_bytes:,} B",
            when(one.sent_at),
            when(one.expires_at),
        )
        for one in rows
    ]
    return columns(("NAME", "ID", "CORRELATION", "SIZE", "SENT", "EXPIRES"), cells, nothing="no message is kept")


def _correlation(keys: dict[str, Any]) -> str:
    """As `message send -c` takes it."""
    texts = {key: value if isinstance(value, str) else as_json(value, indent=-1) for key, value in keys.items()}
    return " ".join(f"{key}={text}" for key, text in texts.items()) or "-"


@click.command("delete")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--name", metavar="NAME", help="All of this name, instead of single ones.")
@click.option("--yes", is_flag=True, help="With --name: do not ask first.")
@db_option
@reads_server_option
def delete_command(ids: tuple[str, ...], name: str | None, yes: bool, db: str | None) -> None:
    """Delete messages that nobody has taken yet, by their ids or all of a name. Nobody will receive them.

    One that was delivered, or is not there, is told, and the exit code is 4; the others are deleted.

    \b
    noetl message delete m-1 m-2
    noetl message delete --name approval_received --yes
    """
    if bool(ids) == (name is not None):
        raise click.UsageError("say which: ID..., or --name NAME for all of a name")
    if name is not None:
        _confirm(name, yes)
        number = ask(db, lambda it: it.delete_messages(name))
        click.echo(f'deleted {number:,} message{"" if number == 1 else "s"} "{visible(name)}"')
    elif not ask(db, lambda it: _delete(it, ids)):
        raise SystemExit(REFUSED)


def _confirm(name: str, yes: bool) -> None:
    if yes:
        return
    if not _is_at_a_terminal():
        raise click.UsageError("there is no terminal to ask at: say --yes to delete all of a name")
    if not click.confirm(f'delete all kept messages "{visible(name)}"? nobody will receive them', err=True):
        raise QueryRefused("nothing was deleted")


def _is_at_a_terminal() -> bool:
    return sys.stdin.isatty()


async def _delete(it: Operations, ids: tuple[str, ...]) -> bool:
    """Whether all of them were deleted; of the others it is told why not."""
    is_done = True
    for message_id in ids:
        try:
            await it.delete_message(message_id)
        except (NotFoundError, SettledError) as problem:  # it is about this one, and says nothing of the next
            click.echo(f"error: {visible(str(problem))}", err=True)
            is_done = False
        else:
            click.echo(f"deleted message {visible(message_id)}")
    return is_done


COMMANDS = (list_command, delete_command)
