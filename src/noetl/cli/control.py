"""`noetl pause`, `resume` and `cancel`: steering an execution (CLI-02, SRV-07, SRV-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import ask, find_execution_id, is_left_alone, place_options
from noetl.cli.queries import ID_HELP, id_argument, resume_hint
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import Steered


_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "compensate": "cancelling and compensating"}
_SAME = {
    "pause": "was paused already",
    "resume": "was not paused",
    "cancel": "was cancelled already",
    "compensate": "was cancelled already",
}

reason_option = click.option("--reason", metavar="TEXT", help="Reason, recorded with the event.")


def steer(given: str, action: str, *, reason: str | None, db: str | None) -> None:
    """Have `action` done to the execution that is meant, and say what became of it."""

    async def steered(it: Operations) -> tuple[Steered, bool]:
        execution_id = await find_execution_id(it, given)
        match action:
            case "pause":
                told = await it.pause(execution_id, reason)
            case "resume":
                told = await it.resume(execution_id, reason)
            case _:
                told = await it.cancel(execution_id, reason, compensate=action == "compensate")
        return told, await is_left_alone(it, execution_id)

    told, is_alone = ask(db, steered)
    if told.changed:
        click.echo(f"{_DONE[action]} execution {told.execution_id}")
    else:
        click.echo(f"execution {told.execution_id} {_SAME[action]}")
    if is_alone and action != "cancel":
        click.echo(f"nobody runs it now; take it up with: {resume_hint(db, told.execution_id)}", err=True)


@click.command("pause", epilog=ID_HELP)
@id_argument
@reason_option
@place_options
@color_option
def pause_command(given: str, reason: str | None, db: str | None) -> None:
    """Pause an execution: running tasks may finish, and nothing new begins until you resume it."""
    steer(given, "pause", reason=reason, db=db)


@click.command("resume", epilog=ID_HELP)
@id_argument
@reason_option
@place_options
@color_option
def resume_command(given: str, reason: str | None, db: str | None) -> None:
    """Resume a paused execution. For an interrupted run, use noetl run --resume."""
    steer(given, "resume", reason=reason, db=db)


@click.command("cancel", epilog=ID_HELP)
@id_argument
@reason_option
@click.option("--compensate", is_flag=True, help="First undo what its steps have done, in reverse order.")
@place_options
@color_option
def cancel_command(given: str, reason: str | None, compensate: bool, db: str | None) -> None:
    """Cancel an execution and its children: running tasks are stopped."""
    steer(given, "compensate" if compensate else "cancel", reason=reason, db=db)
