"""`noetl executions`, `result` and `ctx`: lists of executions, their results and their variables. `pause`, `resume`,
`cancel` and `timer`: their control (CLI-02, SRV-07, SRV-11, TMR-04)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import EXECUTION, PLAYBOOK, STEP
from noetl.cli.connection import ask, find_execution_id, is_abandoned_run, known_step, place_meant, place_options, read
from noetl.cli.queries import CODES, ID_HELP, QueryRefused, find_execution, id_argument, resume_hint
from noetl.cli.terminal import as_json, color_option, columns, list_output, print_list, visible, width

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import Steered, TimerView
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
        rows = await history.executions(limit=limit, status=status, path=path, beyond=beyond)
        registered.update({path: await history.registered(path) for path in {row.path for row in rows}})
        return rows

    registered: dict[str, set[str] | None] = {}
    rows = read(db, execution_rows)
    fields = [execution_fields(row, registered[row.path]) for row in rows]
    print_list(fields, output, key="execution_id", table=lambda: _table(rows, registered, time.time()))
    if output == "table" and len(rows) == limit:
        click.echo(f"more: noetl executions --beyond {rows[-1].execution_id}", err=True)


_FIELDS = (
    *("execution_id", "path", "name", "status", "created_at", "finished_at", "duration_s", "events", "trace_id"),
    *("failed_iterations", "iterations", "unrun_iterations", "passed_over_iterations", "error_kind", "failed_step"),
    "trial",
)


def execution_fields(row: ExecutionRow, registered: set[str] | None) -> dict[str, Any]:
    """The fields of an execution for JSON output. `registered` are the nets of its playbook in the catalogue; None
    where the row says itself what is a draft."""
    fields = {**row.readable(), "trial": _trial(row, registered)}
    return {name: fields[name] for name in _FIELDS}


def _trial(row: ExecutionRow, registered: set[str] | None) -> str | None:
    """draft | step-test; None for a run of a registered playbook. The same as a server on this store says."""
    from noetl.operations.step_tests import DRAFT, PATH_ENDING, STEP_TEST

    if registered is None:
        trial: str | None = getattr(row, "trial", None)
        return trial
    if row.path.endswith(PATH_ENDING):
        return STEP_TEST
    return None if row.net_hash in registered else DRAFT


def _trial_mark(row: ExecutionRow, registered: set[str] | None) -> str:
    trial = _trial(row, registered)
    return f"  ({trial.replace('-', ' ')})" if trial is not None else ""


def _table(rows: list[ExecutionRow], registered: dict[str, set[str] | None], now: float) -> list[str]:
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
            _iterations_text(row),
            visible(row.path) + _trial_mark(row, registered[row.path]),
        )
        for row in rows
    ]
    # Without failures the column would be empty and only take space.
    if not any(line[5] for line in cells[1:]):
        cells = [(*line[:5], line[6]) for line in cells]
    widths = [max(width(line[column]) for line in cells) for column in range(len(cells[0]))]
    return [_row(line, widths) for line in cells]


def _iterations_text(row: ExecutionRow) -> str:
    """The iterations that are not simply done."""
    parts = [f"{row.failed_iterations:,} of {row.iterations:,} failed"] if row.failed_iterations else []
    if row.summary is not None and row.summary.unrun:
        parts.append(f"{row.summary.unrun:,} not run")
    if row.summary is not None and row.summary.passed_over:
        parts.append(f"{row.summary.passed_over:,} passed over after an error")
    return ", ".join(parts)


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


_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "compensate": "cancelling and compensating"}
_SAME = {
    "pause": "was paused already",
    "resume": "was not paused",
    "cancel": "was cancelled already",
    "compensate": "was cancelled already",
}

reason_option = click.option("--reason", metavar="TEXT", help="Reason, recorded with the event.")


def steer(reference: str, action: str, *, reason: str | None, db: str | None) -> None:
    """Send `action` to an execution and print the outcome."""

    async def send_request(it: Operations) -> tuple[Steered, bool]:
        execution_id = await find_execution_id(it, reference)
        match action:
            case "pause":
                answer = await it.pause(execution_id, reason)
            case "resume":
                answer = await it.resume(execution_id, reason)
            case _:
                answer = await it.cancel(execution_id, reason, compensate=action == "compensate")
        return answer, await is_abandoned_run(it, execution_id)

    answer, is_alone = ask(db, send_request)
    if answer.changed:
        click.echo(f"{_DONE[action]} execution {answer.execution_id}")
    else:
        click.echo(f"execution {answer.execution_id} {_SAME[action]}")
    if is_alone and action != "cancel":
        click.echo(f"no process runs it now; resume it with: {resume_hint(db, answer.execution_id)}", err=True)


@click.command("pause", epilog=ID_HELP)
@id_argument
@reason_option
@place_options
@color_option
def pause_command(reference: str, reason: str | None, db: str | None) -> None:
    """Pause an execution: running tasks may finish, and nothing new begins until you resume it."""
    steer(reference, "pause", reason=reason, db=db)


@click.command("resume", epilog=ID_HELP)
@id_argument
@reason_option
@place_options
@color_option
def resume_command(reference: str, reason: str | None, db: str | None) -> None:
    """Resume a paused execution. For an interrupted run, use noetl run --resume."""
    steer(reference, "resume", reason=reason, db=db)


@click.command("cancel", epilog=ID_HELP)
@id_argument
@reason_option
@click.option("--compensate", is_flag=True, help="First undo what its steps have done, in reverse order.")
@place_options
@color_option
def cancel_command(reference: str, reason: str | None, compensate: bool, db: str | None) -> None:
    """Cancel an execution and its children: running tasks are stopped."""
    steer(reference, "compensate" if compensate else "cancel", reason=reason, db=db)


# `noetl timer`: running timers, and cancelling those that their author allows to cancel (TMR-04).


@click.group("timer")
@color_option
def timer_command() -> None:
    """List timers that run, and cancel them."""


@timer_command.command("list", epilog=ID_HELP)
@click.argument("reference", metavar="[ID]", required=False, type=EXECUTION)
@list_output
@place_options
def list_command(reference: str | None, output: str, db: str | None) -> None:
    """List the timers that run in an execution, or in all that are open, the nearest first."""

    async def load_timers(it: Operations) -> list[TimerView]:
        return await it.timers(await find_execution_id(it, reference) if reference is not None else None)

    timers = ask(db, load_timers)
    print_list(timers, output, key="id", table=lambda: _timer_table(timers))


@timer_command.command("cancel", epilog=ID_HELP)
@id_argument
@click.argument("timer")
@click.option("--as", "actor", metavar="USER", help="User who cancels it. [default: your user name]")
@place_options
def cancel(reference: str, timer: str, actor: str | None, db: str | None) -> None:
    """Cancel a timer of an execution; its step goes on with timer.cancelled.

    TIMER is its id, or the name its author gave it. Only timers with spec.cancellable: true can be cancelled.

    \b
    noetl timer cancel last reminder
    """

    async def cancel_timer(it: Operations) -> str:
        execution_id = await find_execution_id(it, reference)
        matching = [
            candidate for candidate in await it.timers(execution_id) if timer in (candidate.id, candidate.timer)
        ]
        if not matching:
            raise QueryRefused(f'no timer "{visible(timer)}" runs in execution {execution_id}: noetl timer list')
        if len(matching) > 1:
            ids = ", ".join(candidate.id for candidate in matching)
            raise QueryRefused(f'{len(matching)} timers are called "{visible(timer)}": name one of {ids}')
        await it.cancel_timer(matching[0].id)
        return execution_id

    execution_id = ask(db, cancel_timer, actor=actor)
    click.echo(f'cancelled timer "{visible(timer)}" of execution {execution_id}')


def _timer_table(timers: list[TimerView]) -> list[str]:
    from datetime import datetime

    from noetl.cli.live_text import local_time

    rows = [
        (
            timer.timer,
            local_time(datetime.fromisoformat(timer.due_at).timestamp()),
            "yes" if timer.cancellable else "no",
            str(timer.step),
            timer.execution_id,
        )
        for timer in timers
    ]
    return columns(("TIMER", "DUE", "CANCELLABLE", "STEP", "EXECUTION"), rows, nothing="no timers")
