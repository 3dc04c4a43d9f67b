"""`noetl ctx`: the variables of an execution, as its log tells them (SRV-09, SCOPE-03)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import place_meant, read, reads_server_option
from noetl.cli.queries import ID_HELP, as_json, db_option, find_execution, id_argument
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
    click.echo(as_json(read(db, lambda history: _ctx(history, given, place_meant(db).results()))))


async def _ctx(history: Records, given: str, results: Results) -> dict[str, Any]:
    from noetl.operations.results import LoadableValues, recorded_ctx

    row = await find_execution(history, given)
    return await recorded_ctx(history, LoadableValues(results), row.execution_id)
