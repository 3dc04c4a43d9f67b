"""`noetl explain`: why an execution is where it is, in sentences, each with what would move it (beyond.md)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import reads_server_option, server_meant
from noetl.cli.queries import (
    ID_HELP,
    as_json,
    db_option,
    find_execution,
    id_argument,
    pages,
    read,
    refusals,
    results_of,
    resume_hint,
)
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.store.contract import ExecutionRow, Records, Results


@click.command("explain", epilog=ID_HELP)
@id_argument
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@db_option
@reads_server_option
@color_option
def command(given: str, output: str, db: str | None) -> None:
    """Say why an execution is where it is: where each token is, what it waits for, and what would move it."""
    told = _from_server(given, db) if server_meant(db) is not None else _from_store(given, db)
    if output == "json":
        click.echo(as_json(told))
        return
    click.echo(f"{told['execution_id']}  {told['status']}")
    for sentence in told["sentences"]:
        click.echo(f"  {visible(sentence)}")


def _from_server(given: str, db: str | None) -> dict[str, Any]:
    there = server_meant(db)
    assert there is not None, "asked before"
    row: ExecutionRow = read(db, lambda history: find_execution(history, given))
    with refusals(), there.client() as client:
        return client.explain(row.execution_id)


def _from_store(given: str, db: str | None) -> dict[str, Any]:
    """From the log alone, so that it needs no server."""
    import msgspec

    results = results_of(db)
    row, told, is_abandoned = read(db, lambda history: _explained(history, given, results))
    if is_abandoned:
        told["sentences"].append(f"nobody runs it now: {resume_hint(db, row.execution_id)}")
        told["stuck"] = True
    explained: dict[str, Any] = msgspec.to_builtins(told)
    return explained


async def _explained(history: Records, given: str, results: Results) -> tuple[ExecutionRow, dict[str, Any], bool]:
    from noetl.control.background.presence import is_abandoned
    from noetl.control.views.side_run_views import side_runs_of
    from noetl.control.views.token_views import sentences_of, tokens_of
    from noetl.engine.evolve import replayed
    from noetl.events.envelope import with_stored_values
    from noetl.store.human_tasks import TaskState
    from noetl.store.rebuild import derived_rows

    row = await find_execution(history, given)
    events = [
        with_stored_values(event, results.load) async for page in pages(history, row.execution_id) for event in page
    ]
    rows, execution = derived_rows(events), replayed(row.execution_id, row.trace_id, events)
    tasks = [task for task in rows.tasks if task.state in (TaskState.OPEN, TaskState.CLAIMED)]
    tokens = tokens_of(execution, rows.orders, rows.waits, tasks)
    side_runs = side_runs_of(execution, await history.orders(row.execution_id), time.time())
    told = {
        "execution_id": row.execution_id,
        "status": row.status,
        "stuck": execution.paused and execution.is_open,
        "sentences": sentences_of(execution, tokens, side_runs),
        "tokens": tokens,
        "side_runs": side_runs,
    }
    return row, told, await is_abandoned(history, row)
