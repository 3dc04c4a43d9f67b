"""`noetl result` and `ctx`: what an execution gave, or one of its steps, and its variables (O-08, RES-02, SCOPE-03)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import STEP
from noetl.cli.connection import known_step, place_meant, place_options, read
from noetl.cli.queries import CODES, ID_HELP, as_json, find_execution, id_argument
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.operations.results import RecordedEnding
    from noetl.store.contract import Records, Results


@click.command("result", epilog=ID_HELP)
@id_argument
@click.option("--step", metavar="STEP", type=STEP, help="The latest result of this step instead.")
@click.option("--rows", metavar="N", type=click.IntRange(1, 10_000), help="Of a table: N of its rows.")
@click.option("--offset", metavar="ROW", type=click.IntRange(0), default=0, help="With --rows: after so many rows.")
@place_options
@color_option
@click.pass_context
def result_command(
    ctx: click.Context, given: str, step: str | None, rows: int | None, offset: int, db: str | None
) -> None:
    """Print the result of an execution as JSON; text is printed as it is.

    Exits with 0 when it completed, 1 when it failed, 5 when it was cancelled, 4 while there is none yet. With --step,
    0 when the step gave one and 1 when it failed.
    """
    results = place_meant(db).results()
    ending = read(db, lambda history: _ending(history, given, step, results))
    if ending.error is not None:
        _print_error(ending.error)
    if ending.result is not None and rows is not None:
        _print_rows(ending.result, results, offset, rows)
    elif ending.result is not None:
        click.echo(ending.result if isinstance(ending.result, str) else as_json(ending.result))
    ctx.exit(CODES[ending.status])


async def _ending(history: Records, given: str, step: str | None, results: Results) -> RecordedEnding:
    from noetl.operations.results import LoadableValues, execution_ending, step_ending

    row, values = await find_execution(history, given), LoadableValues(results)
    await known_step(history, row, step)
    if step is not None:
        return await step_ending(history, values, row, step)
    return await execution_ending(history, values, row)


def _print_rows(result: Any, results: Results, offset: int, limit: int) -> None:
    """Some rows of the table that a result refers to, under their columns."""
    import asyncio

    from noetl.cli.output_formats import columns
    from noetl.operations.value_pages import recorded_table

    if (checksum := recorded_table(result)) is None:
        raise click.UsageError("this result is no table: leave --rows out")
    if hasattr(results, "table_page"):
        page = results.table_page(checksum, offset=offset, limit=limit)
    else:
        from noetl.operations.value_pages import table_page

        page = asyncio.run(table_page(results, checksum, offset=offset, limit=limit))  # type: ignore[arg-type]
    names = [one.name for one in page.columns]
    click.echo("\n".join(columns(names, [[_cell(row.get(name)) for name in names] for row in page.rows])))
    last = offset + len(page.rows)
    click.echo(f"rows {min(offset + 1, last)} to {last} of {page.row_count}", err=True)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else as_json(value)
    return " ".join(text.split())[:200]


def _print_error(error: Any) -> None:
    from noetl.cli.live_text import WHOLE, detail_lines, error_line

    click.echo(click.style("failed", fg="red", bold=True) + f": {error_line(error, WHOLE)}", err=True)
    for line in detail_lines(error):
        click.echo(f"  {line}", err=True)


@click.command("ctx", epilog=ID_HELP)
@id_argument
@place_options
@color_option
def ctx_command(given: str, db: str | None) -> None:
    """Print the `ctx` of an execution as JSON: its variables now, or when it ended."""
    click.echo(as_json(read(db, lambda history: _ctx(history, given, place_meant(db).results()))))


async def _ctx(history: Records, given: str, results: Results) -> dict[str, Any]:
    from noetl.operations.results import LoadableValues, recorded_ctx

    row = await find_execution(history, given)
    return await recorded_ctx(history, LoadableValues(results), row.execution_id)
