"""`noetl ctx`: the variables of an execution, as its log tells them (SRV-09, SCOPE-03)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import reads_server_option
from noetl.cli.queries import ID_HELP, as_json, db_option, find_execution, id_argument, pages, read, results_of
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.store.contract import Records, Results


@click.command("ctx", epilog=ID_HELP)
@id_argument
@db_option
@reads_server_option
@color_option
def command(given: str, db: str | None) -> None:
    """Print the `ctx` of an execution as JSON: its variables now, or when it ended."""
    results = results_of(db)
    click.echo(as_json(read(db, lambda history: ctx_of(history, given, results))))


async def ctx_of(history: Records, given: str, results: Results) -> dict[str, Any]:
    from noetl.engine.pipeline.patches import write
    from noetl.events.executions import ExecutionRequested
    from noetl.events.large_values import put_back
    from noetl.events.steps import CtxPatched
    from noetl.store.contract import SingleRow

    row = await find_execution(history, given)
    ctx: dict[str, Any] = {}
    async for events in pages(
        history, row.execution_id, only=SingleRow(types=(ExecutionRequested.event_type, CtxPatched.event_type))
    ):
        for event in events:
            if isinstance(event.payload, CtxPatched):
                write(ctx, put_back(event.payload, results.load).patch)
            elif isinstance(event.payload, ExecutionRequested) and event.payload.carried is not None:
                carried = put_back(event.payload, results.load).carried
                ctx = dict(carried.ctx) if carried is not None else {}
    return ctx
