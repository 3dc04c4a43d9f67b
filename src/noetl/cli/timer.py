"""`noetl timer`: what waits for its moment, and cancelling it where its author allows that (TMR-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.completion import EXECUTION
from noetl.cli.connection import ask, find_execution_id, place_options
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import ID_HELP, QueryRefused, id_argument
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import TimerView


@click.group("timer")
@color_option
def command() -> None:
    """List timers that run, and cancel them."""


@command.command("list", epilog=ID_HELP)
@click.argument("given", metavar="[ID]", required=False, type=EXECUTION)
@list_output
@place_options
def list_command(given: str | None, output: str, db: str | None) -> None:
    """List the timers that run in an execution, or in all that are open, the nearest first."""

    async def listed(it: Operations) -> list[TimerView]:
        return await it.timers(await find_execution_id(it, given) if given is not None else None)

    timers = ask(db, listed)
    print_list(timers, output, key="id", table=lambda: _table(timers))


@command.command("cancel", epilog=ID_HELP)
@id_argument
@click.argument("timer")
@click.option("--as", "actor", metavar="USER", help="User who cancels it. [default: your user name]")
@place_options
def cancel(given: str, timer: str, actor: str | None, db: str | None) -> None:
    """Cancel a timer of an execution; its step goes on with timer.cancelled.

    TIMER is its id, or the name its author gave it. Only timers with spec.cancellable: true can be cancelled.

    \b
    noetl timer cancel last reminder
    """

    async def cancelled(it: Operations) -> str:
        execution_id = await find_execution_id(it, given)
        meant = [one for one in await it.timers(execution_id) if timer in (one.id, one.timer)]
        if not meant:
            raise QueryRefused(f'no timer "{visible(timer)}" runs in execution {execution_id}: noetl timer list')
        if len(meant) > 1:
            ids = ", ".join(one.id for one in meant)
            raise QueryRefused(f'{len(meant)} timers are called "{visible(timer)}": name one of {ids}')
        await it.cancel_timer(meant[0].id)
        return execution_id

    execution_id = ask(db, cancelled, actor=actor)
    click.echo(f'cancelled timer "{visible(timer)}" of execution {execution_id}')


def _table(timers: list[TimerView]) -> list[str]:
    from datetime import datetime

    from noetl.cli.live_text import local_time
    from noetl.cli.output_formats import columns

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
