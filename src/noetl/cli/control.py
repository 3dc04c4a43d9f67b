"""`noetl pause`, `resume` and `cancel`: what they have in common (SRV-07, SRV-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import ask, find_execution_id, is_left_alone
from noetl.cli.queries import resume_hint

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

reason_option = click.option("--reason", metavar="TEXT", help="Why; it is recorded with the event.")


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
