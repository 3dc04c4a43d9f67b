"""`noetl executions`: what has been run in a store, the newest first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import EXECUTION, PLAYBOOK
from noetl.cli.connection import place_options, read
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.queries import QueryRefused
from noetl.cli.terminal import color_option, visible, width

if TYPE_CHECKING:
    from noetl.store.contract import ExecutionRow, Records

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
def command(status: str | None, path: str | None, limit: int, beyond: str | None, output: str, db: str | None) -> None:
    """List executions, the newest first.

    \b
    noetl executions --status failed --path 'orders/*' -o id
    """

    async def execution_rows(history: Records) -> list[ExecutionRow]:
        if beyond is not None and await history.execution(beyond) is None:
            raise QueryRefused(f'no execution "{visible(beyond)}" here')
        return await history.executions(limit=limit, status=status, path=path, beyond=beyond)

    rows = read(db, execution_rows)
    told = [execution_fields(row) for row in rows]
    print_list(told, output, key="execution_id", table=lambda: _table(rows, time.time()))
    if output == "table" and len(rows) == limit:
        click.echo(f"more: noetl executions --beyond {rows[-1].execution_id}", err=True)


_TOLD = ("execution_id", "path", "name", "status", "created_at", "finished_at", "duration_s", "events", "trace_id")


def execution_fields(row: ExecutionRow) -> dict[str, Any]:
    """A row as other programs read it."""
    told = row.readable()
    return {name: told[name] for name in _TOLD}


def _table(rows: list[ExecutionRow], now: float) -> list[str]:
    from noetl.cli.live_text import lasted, local_time

    if not rows:
        return ["no executions"]
    cells = [("EXECUTION", "STATUS", "STARTED", "TOOK", "EVENTS", "PATH")]
    cells += [
        (
            row.execution_id,
            row.status,
            local_time(row.created_at),
            lasted((row.finished_at or now) - row.created_at),
            f"{row.last_seq:,}",
            visible(row.path),
        )
        for row in rows
    ]
    widths = [max(width(line[column]) for line in cells) for column in range(len(cells[0]))]
    return [_row(line, widths) for line in cells]


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [cell + " " * (wide - width(cell)) for cell, wide in zip(cells, widths, strict=True)]
    padded[1] = click.style(padded[1], fg=_COLORS.get(cells[1]))
    return "  ".join(padded).rstrip()
