"""`noetl audit`: read the audit log, and check that nobody has changed it (reliability.md §3.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import ask, place_options
from noetl.cli.output_formats import list_output, print_list
from noetl.cli.terminal import color_option, when

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.administration_shapes import AuditShape

BROKEN = 1
_PAGE = 1_000  # rows a server gives at once


@click.group("audit")
@color_option
def command() -> None:
    """Read and check the audit log: every change and every refusal, in a chain of hashes."""


@command.command("list")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many rows.")
@click.option("--before", type=click.IntRange(1), metavar="ROW", help="Only rows older than this one.")
@list_output
@place_options
def list_command(limit: int, before: int | None, output: str, db: str | None) -> None:
    """List what was done and refused, the newest first."""
    from noetl.cli.output_formats import columns

    rows = ask(db, lambda it: _rows(it, limit, before), makes_store=True)
    shown = [(str(one.seq), when(one.at), one.actor, one.action, one.object, one.address, one.outcome) for one in rows]
    heads = ("ROW", "TIME", "WHO", "DID", "TO", "FROM", "OUTCOME")
    print_list(rows, output, key="seq", table=lambda: columns(heads, shown, nothing="nothing was written yet"))


async def _rows(it: Operations, limit: int, before: int | None) -> list[AuditShape]:
    rows: list[AuditShape] = []
    while len(rows) < limit:
        page = await it.audit(limit=min(_PAGE, limit - len(rows)), before=before)
        rows += page.rows
        if page.next is None:
            break
        before = int(page.next)
    return rows


@command.command("verify")
@click.option("--holds", metavar="HASH", help="A hash noted earlier, which must still be in the chain.")
@place_options
def verify_command(holds: str | None, db: str | None) -> None:
    """Walk the chain of hashes; exit code 1 when it is broken.

    Note the last hash in another place: with --holds it shows later that nothing was cut off the end.
    """
    walk = ask(db, lambda it: it.verify_audit(holds=holds), makes_store=True)
    if walk.broken_at is not None:
        click.echo(f"broken at row {walk.broken_at}: {walk.why}", err=True)
        raise SystemExit(BROKEN)
    if holds is not None and not walk.holds:
        click.echo("the hash is not in the chain: rows were cut off its end, or it is of another log", err=True)
        raise SystemExit(BROKEN)
    rows = walk.rows
    click.echo(f"{rows} row{'' if rows == 1 else 's'}, unbroken; the last hash is {walk.last_hash}")
