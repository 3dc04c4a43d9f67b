"""Reading a store from the command line: opening it, finding the execution that is meant, paging through its events.

Every command that looks at what was recorded goes through here, so that a store that cannot be read and an id that is
not there are told in the same words, with the same exit code (4).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from noetl.base.errors import NoetlError
from noetl.cli.live_completion import EXECUTION
from noetl.cli.terminal import visible

if TYPE_CHECKING:
    from noetl.cli.connection import Reached
    from noetl.events.envelope import Event
    from noetl.store.contract import ExecutionRow, History, Records, Results, SingleRow

LAST = "last"
DONE, FAILED, INVALID, REFUSED, CANCELLED, INTERRUPTED = 0, 1, 3, 4, 5, 130
# How a run, or a step of it, ended, as an exit code (design.md §6).
CODES = {"completed": DONE, "done": DONE, "failed": FAILED, "cancelled": CANCELLED}

_NEAREST = 3
_AMONG = 200  # the newest executions that an unknown id is compared with
_PAGE = 2_000  # events read at a time
_POLL_S = 0.2

Read = TypeVar("Read")


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
    help="Store: a file, or postgresql://…; without it, the file in your data folder.",
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


def read(db: str | None, look: Callable[[Records], Awaitable[Read]]) -> Read:
    """What `look` finds in the store; a running execution is not disturbed by it."""
    from noetl.cli.connection import server_meant

    there = server_meant(db)

    async def looking() -> Read:
        history = await (_opened(db) if there is None else _reached(there))
        try:
            return await look(history)
        finally:
            await history.close()

    with refusals():
        return asyncio.run(looking())


async def _opened(db: str | None) -> Records:
    from noetl.store.open_store import open_records

    return await open_records(db)


async def _reached(there: Reached) -> Records:
    from noetl.client.history import RemoteRecords

    return RemoteRecords(there.aclient())


def results_of(db: str | None) -> Results:
    """Where the store keeps its large results."""
    from noetl.cli.connection import server_meant

    if (there := server_meant(db)) is not None:
        from noetl.client.history import ServerResults

        return ServerResults(there.client())
    from noetl.store.open_store import open_results

    return open_results(db)


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


async def known_step(history: Records, row: ExecutionRow, step: str | None) -> None:
    """Refused when the playbook of an execution has no such step; the nearest is named then."""
    from noetl.cli.connection import server_meant
    from noetl.net.encoding import from_json

    if step is None or server_meant(None) is not None:  # a server gives nets to workers only
        return
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


async def pages(
    history: Records, execution_id: str, *, after: int = 0, only: SingleRow | None = None
) -> AsyncIterator[list[Event]]:
    """The stream in pieces, so that a long one is neither held in memory nor waited for as a whole."""
    import msgspec

    from noetl.store.contract import SingleRow

    picking = msgspec.structs.replace(only or SingleRow(), limit=_PAGE)
    while True:
        events = await history.events(execution_id, after=after, only=picking)
        if events:
            yield events
            after = events[-1].seq
        if len(events) < _PAGE:
            return


async def followed(
    history: Records,
    execution_id: str,
    *,
    after: int = 0,
    only: SingleRow | None = None,
    before_look: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[list[Event]]:
    """The stream as it grows, until the execution is over and all of it has been read. `before_look` is called before
    each look for more."""
    while True:
        row = await history.execution(execution_id)
        assert row is not None, "the execution was found before it was followed"
        if before_look is not None and row.finished_at is None:
            await before_look()
        async for events in pages(history, execution_id, after=after, only=only):
            yield events
            after = events[-1].seq
        if row.finished_at is not None:
            return
        await asyncio.sleep(_POLL_S)


def as_json(value: Any, *, indent: int = 2) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
