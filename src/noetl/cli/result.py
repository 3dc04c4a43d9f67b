"""`noetl result`: what an execution, or one of its steps, gave (O-08, RES-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import reads_server_option
from noetl.cli.live_completion import STEP
from noetl.cli.queries import (
    CODES,
    ID_HELP,
    QueryRefused,
    as_json,
    db_option,
    find_execution,
    id_argument,
    known_step,
    read,
    results_of,
)
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.events.envelope import Event
    from noetl.events.outcomes import Error
    from noetl.store.contract import ExecutionRow, Records, Results


@click.command("result", epilog=ID_HELP)
@id_argument
@click.option("--step", metavar="STEP", type=STEP, help="The latest result of this step instead.")
@db_option
@reads_server_option
@color_option
@click.pass_context
def command(ctx: click.Context, given: str, step: str | None, db: str | None) -> None:
    """Print the result of an execution as JSON; text is printed as it is.

    Exits with 0 when it completed, 1 when it failed, 5 when it was cancelled, 4 while there is none yet. With --step,
    0 when the step gave one and 1 when it failed.
    """
    results = results_of(db)

    async def result_and_value(history: Records) -> tuple[int, Any]:
        row = await find_execution(history, given)
        await known_step(history, row, step)
        if step is not None:
            return await _of_step(history, row, step, results)
        return await _of_execution(history, row, results)

    code, value = read(db, result_and_value)
    if value is not None:
        click.echo(value if isinstance(value, str) else as_json(value))
    ctx.exit(code)


async def _of_execution(history: Records, row: ExecutionRow, results: Results) -> tuple[int, Any]:
    error, value = await ending_of(history, row, results)
    if error is not None:
        _print_error(error)
    return CODES[row.status], value


async def ending_of(history: Records, row: ExecutionRow, results: Results) -> tuple[Error | None, Any]:
    """What an execution that is over failed of, and what it gave. Refused while it is not."""
    from noetl.events.executions import PlaybookProcessed

    end = await _newest(history, row, (PlaybookProcessed.event_type,))
    if end is None:
        raise QueryRefused(f"execution {row.execution_id} has not ended: it is {row.status}")
    processed = end.payload
    assert isinstance(processed, PlaybookProcessed)
    values = {name: (await _of_step(history, row, name, results))[1] for name in processed.result_of}
    return processed.error, next(iter(values.values())) if len(values) == 1 else values or None


async def _of_step(history: Records, row: ExecutionRow, step: str, results: Results) -> tuple[int, Any]:
    from noetl.engine.recorded_results import ENOUGH, TELLING, carried_in, ended_in
    from noetl.engine.scopes import payload_of
    from noetl.events.envelope import with_stored_values
    from noetl.events.executions import ExecutionRequested
    from noetl.store.contract import SingleRow

    only = SingleRow(types=TELLING, step=step, limit=ENOUGH, newest=True)
    events = [with_stored_values(event, results.load) for event in await history.events(row.execution_id, only=only)]
    ended = ended_in(events, step)
    if ended is None and (request := await _newest(history, row, (ExecutionRequested.event_type,))) is not None:
        ended = carried_in(request, step)
    if ended is None:
        raise QueryRefused(f'step "{visible(step)}" has not ended in execution {row.execution_id}')
    if ended.error is not None:
        _print_error(ended.error)
        return 1, None
    return 0, payload_of(ended.result, results.load)


async def _newest(history: Records, row: ExecutionRow, types: tuple[str, ...]) -> Event | None:
    from noetl.store.contract import SingleRow

    events = await history.events(row.execution_id, only=SingleRow(types=types, limit=1, newest=True))
    return events[0] if events else None


def _print_error(error: Any) -> None:
    from noetl.cli.live_text import error_line

    click.echo(click.style("failed", fg="red", bold=True) + f": {error_line(error)}", err=True)
