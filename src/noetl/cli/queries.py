"""What commands that look at executions share: `--db` and ID, exit codes, refusals, finding the execution.

A store that cannot be read and an id that is not there are reported in the same words, with the same exit code (4).
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
_AMONG = 200  # the newest executions that an unknown id is compared with


def _configured_db() -> str | None:
    """The store that the settings name (NOETL_DB)."""
    from noetl.base.settings import load_settings

    return load_settings().settings.db


def _checked_db(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    from noetl.base.errors import RefusedError
    from noetl.store.open_store import refuse_mistyped

    try:
        refuse_mistyped(given)
    except RefusedError as problem:
        raise click.BadParameter(str(problem)) from None
    return given


db_option = click.option(
    "--db",
    metavar="STORE",
    default=_configured_db,
    callback=_checked_db,
    help="Store: a file or postgresql://… [default: the file in your data folder]",
)
id_argument = click.argument("given", metavar="ID", type=EXECUTION)
LOOKED_FOR = ": run a playbook first, or name another file with --db"
ID_HELP = 'ID is an execution: its id, the beginning of it, or "last" for the newest that is not nested.'


class QueryRefused(click.ClickException):
    """What was asked cannot be done; one sentence says why."""

    exit_code = REFUSED

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", file=file or sys.stderr)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what a backend cannot do into a sentence and exit code 4."""
    try:
        yield
    except NoetlError as problem:
        raise QueryRefused(str(problem)) from problem


def is_there(db: str | None) -> bool:
    """Whether there may be a store; of a database server that is known only when it is opened."""
    from noetl.store.open_store import is_database

    return is_database(db) or place_of(db).exists()


def place_of(db: str | None) -> Path:
    from noetl.base.settings import default_db

    return Path(db) if db is not None else default_db()


def resume_hint(db: str | None, execution_id: str) -> str:
    """The command that takes up an interrupted execution."""
    from shlex import quote

    from noetl.store.open_store import without_password

    option = f" --db {quote(without_password(db))}" if db else ""
    return f"noetl run{option} --resume {execution_id}"


async def find_execution(history: History, given: str) -> ExecutionRow:
    """The execution that is meant. Refused when there is none, or more than one; the nearest are named then."""
    if given == LAST:
        return await _newest(history)
    row = await history.execution(given)
    if row is not None:
        return row
    begin = await history.begin_with(given, limit=_NEAREST + 1) if given else []
    if len(begin) == 1:
        only = await history.execution(begin[0])
        assert only is not None, "it was listed a moment ago, and executions are not deleted while one looks"
        return only
    if begin:
        listed = ", ".join(begin[:_NEAREST]) + (", …" if len(begin) > _NEAREST else "")
        raise QueryRefused(f'several executions begin with "{visible(given)}": {listed}')
    raise QueryRefused(f'no execution "{visible(given)}" here{await _nearest(history, given)}')


async def _newest(history: History) -> ExecutionRow:
    """The one that somebody began last, not one that is nested in another."""
    rows = await history.executions(limit=_AMONG)
    if not rows:
        raise QueryRefused("there is no execution here yet")
    row = next((row for row in rows if row.parent_execution_id is None), rows[0])
    while row.parent_execution_id is not None and (outer := await history.execution(row.parent_execution_id)):
        row = outer
    return row


async def refuse_unknown_step(history: Records, row: ExecutionRow, step: str) -> None:
    """Refused when the playbook of an execution has no such step; the nearest is named then."""
    from noetl.net.net import from_json

    names = [one.name for one in from_json(await history.net(row.net_hash)).transitions]
    if step not in names:
        from difflib import get_close_matches

        close = get_close_matches(step, names, n=1)
        way_out = f'did you mean "{visible(close[0])}"?' if close else f"there is {', '.join(map(visible, names))}"
        raise QueryRefused(f'{visible(row.path)} has no step "{visible(step)}"; {way_out}')


async def _nearest(history: History, given: str) -> str:
    from difflib import get_close_matches

    ids = [row.execution_id for row in await history.executions(limit=_AMONG)]
    close = get_close_matches(given, ids, n=_NEAREST, cutoff=0.5)
    if close:
        return f"; the nearest: {', '.join(close)}"
    return f"; the newest: {', '.join(ids[:_NEAREST])}" if ids else ", nor any other yet"


def as_json(value: Any, *, indent: int = 2) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
