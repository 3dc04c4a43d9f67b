"""What commands about executions share: `--db` and ID, exit codes, refusals, finding the execution.

An unreadable store and an unknown id have the same messages and the same exit code (4) in all commands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.base.errors import NoetlError
from noetl.cli.completion import EXECUTION
from noetl.cli.terminal import visible

if TYPE_CHECKING:
    from noetl.store.contract import ExecutionRow, History, Records

LAST = "last"
DONE, FAILED, INVALID, REFUSED, CANCELLED, INTERRUPTED = 0, 1, 3, 4, 5, 130
# How a run, or a step of it, ended, as an exit code (design.md §6).
CODES = {"completed": DONE, "done": DONE, "failed": FAILED, "cancelled": CANCELLED}

_NEAREST = 3
# The newest executions that an unknown id is compared with.
_AMONG = 200


def _configured_db() -> str | None:
    """The store that the settings name (NOETL_DB)."""
    from noetl.base.settings import load_settings

    return load_settings().settings.db


def _checked_db(_: click.Context, __: click.Parameter, db: str | None) -> str | None:
    from noetl.base.errors import RefusedError
    from noetl.store.open_store import refuse_mistyped

    try:
        refuse_mistyped(db)
    except RefusedError as problem:
        raise click.BadParameter(str(problem)) from None
    return db


db_option = click.option(
    "--db",
    metavar="STORE",
    default=_configured_db,
    callback=_checked_db,
    help="Store: a file or postgresql://… [default: the file in your data folder]",
)
id_argument = click.argument("reference", metavar="ID", type=EXECUTION)
LOOKED_FOR = ": run a playbook first, or name another file with --db"
ID_HELP = 'ID is an execution: its id, the beginning of it, or "last" for the newest that is not nested.'


class QueryRefused(click.ClickException):
    """A request that cannot be fulfilled; the message says why."""

    exit_code = REFUSED

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", file=file or sys.stderr)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a NoetlError into an error message and exit code 4."""
    try:
        yield
    except NoetlError as problem:
        # Imported here: that module chooses between a server and a store, and uses this one.
        from noetl.cli.connection import why_this_server

        raise QueryRefused(f"{problem}{why_this_server(problem)}") from problem


def is_there(db: str | None) -> bool:
    """Whether there may be a store; for a database that is known only when it is opened."""
    from noetl.store.open_store import is_database

    return is_database(db) or place_of(db).exists()


def place_of(db: str | None) -> Path:
    from noetl.base.settings import default_db

    return Path(db) if db is not None else default_db()


def resume_hint(db: str | None, execution_id: str) -> str:
    """The command that resumes an interrupted execution."""
    from shlex import quote

    from noetl.base.redaction import without_password

    # Without the password: the line appears in terminals and build logs.
    option = f" --db {quote(without_password(db))}" if db else ""
    return f"noetl run{option} --resume {execution_id}"


async def find_execution(history: History, reference: str) -> ExecutionRow:
    """The execution that `reference` means. Refused if there is none, or more than one; the message names the
    nearest."""
    if reference == LAST:
        return await _newest(history)
    row = await history.execution(reference)
    if row is not None:
        return row
    matching_ids = await history.begin_with(reference, limit=_NEAREST + 1) if reference else []
    if len(matching_ids) == 1:
        row = await history.execution(matching_ids[0])
        assert row is not None, "it was listed a moment ago, and executions are not deleted while one looks"
        return row
    if matching_ids:
        listed = ", ".join(matching_ids[:_NEAREST]) + (", …" if len(matching_ids) > _NEAREST else "")
        raise QueryRefused(f'several executions begin with "{visible(reference)}": {listed}')
    raise QueryRefused(f'no execution "{visible(reference)}" here{await _nearest_ids(history, reference)}')


async def _newest(history: History) -> ExecutionRow:
    """The newest execution that is not nested in another."""
    rows = await history.executions(limit=_AMONG)
    if not rows:
        raise QueryRefused("there is no execution here yet")
    row = next((row for row in rows if row.parent_execution_id is None), rows[0])
    # All of the newest may be children of one older execution.
    while row.parent_execution_id is not None and (outer := await history.execution(row.parent_execution_id)):
        row = outer
    return row


async def refuse_unknown_step(history: Records, row: ExecutionRow, step: str) -> None:
    """Refuse a step that the playbook of an execution does not have; the message names the nearest."""
    from noetl.net.net import from_json

    names = [step_node.name for step_node in from_json(await history.net(row.net_hash)).transitions]
    if step not in names:
        from difflib import get_close_matches

        close = get_close_matches(step, names, n=1)
        way_out = f'did you mean "{visible(close[0])}"?' if close else f"its steps are {', '.join(map(visible, names))}"
        raise QueryRefused(f'{visible(row.path)} has no step "{visible(step)}"; {way_out}')


async def _nearest_ids(history: History, reference: str) -> str:
    from difflib import get_close_matches

    ids = [row.execution_id for row in await history.executions(limit=_AMONG)]
    close = get_close_matches(reference, ids, n=_NEAREST, cutoff=0.5)
    if close:
        return f"; the nearest: {', '.join(close)}"
    return f"; the newest: {', '.join(ids[:_NEAREST])}" if ids else ", nor any other yet"
