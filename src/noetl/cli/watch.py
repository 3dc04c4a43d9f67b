"""`noetl watch`: follow an execution that somebody else drives, to its end (DEPENDENCIES §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import reads_server_option, server_meant
from noetl.cli.queries import (
    ID_HELP,
    QueryRefused,
    db_option,
    find_execution,
    followed,
    id_argument,
    read,
    results_of,
    resume_hint,
)
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.cli.live import LiveView
    from noetl.operations.api_shapes import ResultView
    from noetl.store.contract import ExecutionRow, Records, Results


def _duration(_: click.Context, __: click.Parameter, given: str | None) -> float | None:
    from noetl.base.durations import seconds

    try:
        return seconds(given) if given is not None else None
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.command("watch", epilog=ID_HELP)
@id_argument
@click.option("--timeout", callback=_duration, metavar="DURATION", help="Let go after this long, such as 10m.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Form of the output."
)
@click.option("--quiet", "-q", is_flag=True, help="Only the result, not how it came about.")
@db_option
@reads_server_option
@color_option
@click.pass_context
def command(ctx: click.Context, given: str, timeout: float | None, output: str, quiet: bool, db: str | None) -> None:
    """Follow an execution from its beginning until it has ended, and print its result, as `noetl run` does.

    Exits with 0 when it is done, 1 when it failed, 5 when it was cancelled or the timeout came first, 130 when
    interrupted; the execution goes on then.

    \b
    noetl watch last --timeout 10m && echo done
    """
    row = read(db, lambda history: _running(history, given, db))
    if (there := server_meant(db)) is not None:
        from noetl.cli.remote_run import followed as followed_there

        ctx.exit(followed_there(there, row.execution_id, output, quiet, timeout))
    ctx.exit(_watch_local(row.execution_id, output, quiet, timeout, db))


async def _running(history: Records, given: str, db: str | None) -> ExecutionRow:
    """The execution that is meant. Refused when it would never move."""
    from noetl.control.background.presence import is_abandoned

    row = await find_execution(history, given)
    if await is_abandoned(history, row):
        raise QueryRefused(f"nobody runs {row.execution_id} now; take it up with: {resume_hint(db, row.execution_id)}")
    return row


def _watch_local(execution_id: str, output: str, quiet: bool, within_s: float | None, db: str | None) -> int:
    from noetl.cli.follow import watched
    from noetl.cli.live import print_line
    from noetl.store.open_store import open_records

    results = results_of(db)

    async def watch(view: LiveView | None) -> ResultView:
        history = await open_records(db)
        try:
            async for events in followed(history, execution_id):
                if view is not None:
                    view(events)
            return await _ended(history, execution_id, results)
        finally:
            await history.close()

    def let_go() -> None:
        print_line(f"execution {execution_id} goes on in its own process")

    return watched(watch, output=output, quiet=quiet, let_go=let_go, within_s=within_s)


async def _ended(history: Records, execution_id: str, results: Results) -> ResultView:
    from noetl.operations.results import LoadableValues, execution_ending

    row = await history.execution(execution_id)
    assert row is not None, "it was followed to its end"
    return (await execution_ending(history, LoadableValues(results), row)).view(execution_id)
