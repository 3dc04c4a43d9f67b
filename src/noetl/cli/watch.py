"""`noetl watch`: follow an execution that somebody else drives, to its end (DEPENDENCIES §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import ask, find_execution_id, is_left_alone, place_meant, reads_server_option
from noetl.cli.queries import ID_HELP, QueryRefused, db_option, id_argument, resume_hint
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.cli.connection import Operations


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
    from noetl.cli.follow import follow_execution

    execution_id = ask(db, lambda operations: _moving_execution(operations, given, db))
    place = place_meant(db)
    ctx.exit(follow_execution(place, execution_id, output=output, quiet=quiet, within_s=timeout))


async def _moving_execution(operations: Operations, given: str, db: str | None) -> str:
    """The execution that is meant. Refused when it would never move."""
    execution_id = await find_execution_id(operations, given)
    if await is_left_alone(operations, execution_id):
        raise QueryRefused(f"nobody runs {execution_id} now; take it up with: {resume_hint(db, execution_id)}")
    return execution_id
