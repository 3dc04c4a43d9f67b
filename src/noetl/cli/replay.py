"""`noetl replay`: replay an execution from its log alone, to its end or to any of its events (CLI-04, EVT-07)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from noetl.cli.connection import place_meant, read, reads_server_option
from noetl.cli.queries import ID_HELP, QueryRefused, as_json, db_option, find_execution, id_argument
from noetl.cli.status import lines_of, readable_of
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.events.envelope import Event
    from noetl.events.projection.projection import Projection
    from noetl.store.contract import ExecutionRow, Records, Results


@click.command("replay", epilog=ID_HELP)
@id_argument
@click.option("--until", type=click.IntRange(min=1), metavar="SEQ", help="Stop after this event.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@db_option
@reads_server_option
@color_option
def command(given: str, until: int | None, output: str, db: str | None) -> None:
    """Replay the log of an execution and show where it stands then, in the form of `noetl status`.

    Nothing is run again. To the end of the log it says what `noetl status` says.
    """
    from noetl.control.background.presence import is_abandoned
    from noetl.operations.executions import event_pages

    results = place_meant(db).results()

    async def replayed_execution(history: Records) -> tuple[ExecutionRow, Projection, float | None, bool]:
        row = await find_execution(history, given)
        events = [event async for page in event_pages(history, row.execution_id) for event in page]
        if until is not None and until > len(events):
            raise QueryRefused(f"execution {row.execution_id} has {len(events)} events, so there is none {until}")
        told, progress = _replayed(events if until is None else events[:until], results)
        is_past = until is not None and until < len(events)
        return told, progress, events[until - 1].ts if is_past and until else None, await is_abandoned(history, told)

    row, progress, moment, is_alone = read(db, replayed_execution)
    if output == "json":
        click.echo(as_json(readable_of(row, progress, is_alone and moment is None)))
        return
    for line in lines_of(row, progress, moment if moment is not None else time.time()):
        click.echo(line)


def _replayed(events: list[Event], results: Results) -> tuple[ExecutionRow, Projection]:
    """Through the engine, event by event: a log that does not fit together is refused here."""
    from noetl.base.errors import ToolError
    from noetl.events.envelope import with_stored_values
    from noetl.events.projection.projection import Projection
    from noetl.store.rebuild import derived_rows

    progress = Projection()
    progress.take_all(events)
    try:
        return derived_rows([with_stored_values(event, results.load) for event in events]).execution, progress
    except (LookupError, ToolError) as problem:
        raise QueryRefused(f"the log cannot be replayed: {problem}") from problem
