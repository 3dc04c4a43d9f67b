"""`noetl executions`, `result` and `ctx`: lists of executions, their results and their variables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import EXECUTION, PLAYBOOK, STEP
from noetl.cli.connection import known_step, place_meant, place_options, read
from noetl.cli.queries import CODES, ID_HELP, QueryRefused, find_execution, id_argument
from noetl.cli.terminal import as_json, color_option, columns, list_output, print_list, visible, width

if TYPE_CHECKING:
    from noetl.operations.results import RecordedEnding
    from noetl.store.contract import ExecutionRow, Records, Results

STATUSES = ["running", "paused", "completed", "failed", "cancelled"]
_COLORS = {"completed": "green", "failed": "red", "cancelled": "yellow", "paused": "yellow"}


@click.command("executions")
@click.option("--status", type=click.Choice(STATUSES), help="Only executions in this state.")
@click.option("--path", metavar="PATH", type=PLAYBOOK, help="Only executions of this playbook; * stands for any text.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Most rows to list.")
@click.option("--beyond", metavar="ID", type=EXECUTION, help="List the executions after this one, for the next page.")
@list_output
@place_options
@color_option
def executions_command(
    status: str | None, path: str | None, limit: int, beyond: str | None, output: str, db: str | None
) -> None:
    """List executions, the newest first.

    \b
    noetl executions --status failed --path 'orders/*' -o id
    """

    async def execution_rows(history: Records) -> list[ExecutionRow]:
        if beyond is not None and await history.execution(beyond) is None:
            raise QueryRefused(f'no execution "{visible(beyond)}" here')
        return await history.executions(limit=limit, status=status, path=path, beyond=beyond)

    rows = read(db, execution_rows)
    fields = [execution_fields(row) for row in rows]
    print_list(fields, output, key="execution_id", table=lambda: _table(rows, time.time()))
    if output == "table" and len(rows) == limit:
        click.echo(f"more: noetl executions --beyond {rows[-1].execution_id}", err=True)


_FIELDS = (
    *("execution_id", "path", "name", "status", "created_at", "finished_at", "duration_s", "events", "trace_id"),
    *("failed_iterations", "iterations", "trial"),
)


def execution_fields(row: ExecutionRow) -> dict[str, Any]:
    """The fields of an execution for JSON output."""
    fields = {**row.readable(), "trial": _trial(row)}
    return {name: fields[name] for name in _FIELDS}


def _trial(row: ExecutionRow) -> str | None:
    """draft | step-test. Drafts are known to servers only: a store that is read has no catalogue."""
    from noetl.operations.step_tests import PATH_ENDING

    told: str | None = getattr(row, "trial", None)
    return told or ("step-test" if row.path.endswith(PATH_ENDING) else None)


def _trial_mark(row: ExecutionRow) -> str:
    trial = _trial(row)
    return f"  ({trial.replace('-', ' ')})" if trial is not None else ""


def _table(rows: list[ExecutionRow], now: float) -> list[str]:
    """The table of executions; the column of failed iterations appears only if there are any."""
    from noetl.cli.live_text import lasted, local_time

    if not rows:
        return ["no executions"]
    cells: list[tuple[str, ...]] = [("EXECUTION", "STATUS", "STARTED", "TOOK", "EVENTS", "ITERATIONS", "PATH")]
    cells += [
        (
            row.execution_id,
            row.status,
            local_time(row.created_at),
            lasted((row.finished_at or now) - row.created_at),
            f"{row.last_seq:,}",
            f"{row.failed_iterations:,} of {row.iterations:,} failed" if row.failed_iterations else "",
            visible(row.path) + _trial_mark(row),
        )
        for row in rows
    ]
    # Without failures the column would be empty and only take space.
    if not any(row.failed_iterations for row in rows):
        cells = [(*line[:5], line[6]) for line in cells]
    widths = [max(width(line[column]) for line in cells) for column in range(len(cells[0]))]
    return [_row(line, widths) for line in cells]


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [cell + " " * (wide - width(cell)) for cell, wide in zip(cells, widths, strict=True)]
    padded[1] = click.style(padded[1], fg=_COLORS.get(cells[1]))
    return "  ".join(padded).rstrip()


# `noetl result` and `ctx`: the result of an execution or of a step, and the variables (O-08, RES-02, SCOPE-03).


@click.command("result", epilog=ID_HELP)
@id_argument
@click.option("--step", metavar="STEP", type=STEP, help="The latest result of this step instead.")
@click.option("--rows", metavar="N", type=click.IntRange(1, 10_000), help="Of a table: N of its rows.")
@click.option("--offset", metavar="ROW", type=click.IntRange(0), default=0, help="With --rows: after so many rows.")
@place_options
@color_option
@click.pass_context
def result_command(
    ctx: click.Context, reference: str, step: str | None, rows: int | None, offset: int, db: str | None
) -> None:
    """Print the result of an execution as JSON; text is printed as it is.

    Exits with 0 when it completed, 1 when it failed, 5 when it was cancelled, 4 while there is none yet. With --step,
    0 when the step gave one and 1 when it failed.
    """
    results = place_meant(db).results()
    ending = read(db, lambda history: _ending(history, reference, step, results))
    if ending.error is not None:
        _print_error(ending.error)
    if ending.result is not None and rows is not None:
        _print_rows(ending.result, results, offset, rows)
    elif ending.result is not None:
        click.echo(ending.result if isinstance(ending.result, str) else as_json(ending.result))
    ctx.exit(CODES[ending.status])


async def _ending(history: Records, reference: str, step: str | None, results: Results) -> RecordedEnding:
    from noetl.operations.results import LoadableValues, execution_ending, step_ending

    row, values = await find_execution(history, reference), LoadableValues(results)
    await known_step(history, row, step)
    if step is not None:
        return await step_ending(history, values, row, step)
    return await execution_ending(history, values, row)


def _print_rows(result: Any, results: Results, offset: int, limit: int) -> None:
    """Some rows of the table that a result refers to, under their columns."""
    import asyncio

    from noetl.operations.value_pages import recorded_table

    if (checksum := recorded_table(result)) is None:
        raise click.UsageError("this result is not a table: leave --rows out")
    # A server returns the page; a store on this machine is read here.
    if hasattr(results, "table_page"):
        page = results.table_page(checksum, offset=offset, limit=limit)
    else:
        from noetl.operations.value_pages import table_page

        page = asyncio.run(table_page(results, checksum, offset=offset, limit=limit))  # type: ignore[arg-type]
    names = [column.name for column in page.columns]
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
def ctx_command(reference: str, db: str | None) -> None:
    """Print the `ctx` of an execution as JSON: its variables now, or when it ended."""
    click.echo(as_json(read(db, lambda history: _ctx(history, reference, place_meant(db).results()))))


async def _ctx(history: Records, reference: str, results: Results) -> dict[str, Any]:
    from noetl.operations.results import LoadableValues, recorded_ctx

    row = await find_execution(history, reference)
    return await recorded_ctx(history, LoadableValues(results), row.execution_id)
