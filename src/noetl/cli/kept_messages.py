"""Kept messages: `noetl message list` and `noetl message delete`, for what nobody has taken yet (MSG-03).

What a message says is not shown, only how much it is. Deleting is audited, on a server and on a store.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import Reached, reads_server_option, server_answer, server_meant
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import REFUSED, QueryRefused, as_json, db_option
from noetl.cli.terminal import visible

if TYPE_CHECKING:
    from noetl.client import Client
    from noetl.store.contract import Store

_PAGE = 1_000  # messages a server gives at once
_OF_ONE = (404, 409)  # answers that are about one message, and say nothing of the next


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
    there = server_meant(db)
    rows = (
        _listed_here(db, name, limit)
        if there is None
        else server_answer(there, lambda it: _message_rows(it, name, limit))
    )
    print_list(rows, output, key="message_id", table=lambda: _table(rows))
    if output == "table" and len(rows) == limit:
        click.echo(f"the newest {limit:,}; --limit shows more", err=True)


def _message_rows(client: Client, name: str | None, limit: int) -> list[dict[str, Any]]:
    import msgspec

    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(rows) < limit:
        page = client.messages(name=name, limit=min(_PAGE, limit - len(rows)), cursor=cursor)
        rows += msgspec.to_builtins(page.messages)
        if (cursor := page.next) is None:
            break
    return rows


def _listed_here(db: str | None, name: str | None, limit: int) -> list[dict[str, Any]]:
    from noetl.cli.access import readable
    from noetl.cli.requests import using

    async def stored_rows(store: Store) -> list[dict[str, Any]]:
        return [readable(row) for row in await store.waits.newest_kept(now=time.time(), name=name, limit=limit)]

    return using(db, stored_rows)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    from noetl.cli.access import when
    from noetl.cli.columns import columns

    cells = [
        (
            one["name"],
            one["message_id"],
            _correlation(one["correlation"]),
            f"{one['size_bytes']:,} B",
            when(one["sent_at"]),
            when(one["expires_at"]),
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
    there = server_meant(db)
    if name is not None:
        _confirm(name, yes)
        _delete_named(there, db, name)
        return
    is_done = _delete_here(db, ids) if there is None else _delete_there(there, ids)
    if not is_done:
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


def _delete_named(there: Reached | None, db: str | None, name: str) -> None:
    number = _named_here(db, name) if there is None else server_answer(there, lambda it: it.delete_messages(name))
    click.echo(f'deleted {number:,} message{"" if number == 1 else "s"} "{visible(name)}"')


def _named_here(db: str | None, name: str) -> int:
    from noetl.cli.access import note
    from noetl.cli.requests import using

    async def removed(store: Store) -> int:
        number = await store.waits.remove_named(name, now=time.time())
        if number:
            await note(store, "message delete", f"name {name}")
        return number

    return using(db, removed)


def _delete_there(there: Reached, ids: tuple[str, ...]) -> bool:
    """Whether all of them were deleted; of the others it is told why not."""
    from noetl.client import ApiError

    def delete(client: Client) -> list[bool]:
        return [is_deleted(client, one) for one in ids]

    def is_deleted(client: Client, message_id: str) -> bool:
        try:
            client.delete_message(message_id)
        except ApiError as problem:
            if problem.status not in _OF_ONE:
                raise
            return _print_deletion(message_id, problem)
        return _print_deletion(message_id)

    return all(server_answer(there, delete))


def _delete_here(db: str | None, ids: tuple[str, ...]) -> bool:
    from noetl.base.errors import NotFoundError, SettledError
    from noetl.cli.access import note
    from noetl.cli.requests import using
    from noetl.control.outside.kept_messages import remove

    async def delete(store: Store) -> list[bool]:
        return [await is_deleted(store, one) for one in ids]

    async def is_deleted(store: Store, message_id: str) -> bool:
        try:
            await remove(store.waits, message_id, now=time.time())
        except (NotFoundError, SettledError) as problem:
            return _print_deletion(message_id, problem)
        await note(store, "message delete", message_id)
        return _print_deletion(message_id)

    return all(using(db, delete))


def _print_deletion(message_id: str, problem: Exception | None = None) -> bool:
    """What became of one; whether it was deleted."""
    if problem is None:
        click.echo(f"deleted message {visible(message_id)}")
    else:
        click.echo(f"error: {visible(str(problem))}", err=True)
    return problem is None


COMMANDS = (list_command, delete_command)
