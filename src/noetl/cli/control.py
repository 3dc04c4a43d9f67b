"""`noetl pause`, `resume`, `cancel` and `timer`: control of an execution (CLI-02, SRV-07, SRV-11, TMR-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.completion import EXECUTION
from noetl.cli.connection import ask, find_execution_id, is_abandoned_run, place_options
from noetl.cli.queries import ID_HELP, QueryRefused, id_argument, resume_hint
from noetl.cli.terminal import color_option, columns, list_output, print_list, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import Steered, TimerView

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
    print_list(timers, output, key="id", table=lambda: _table(timers))


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


def _table(timers: list[TimerView]) -> list[str]:
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
