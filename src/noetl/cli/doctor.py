"""`noetl doctor`: look at everything a run stands on, and say what to do about what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.connection import as_table, server_option
from noetl.cli.queries import as_json, db_option
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.cli.doctor_checks import DoctorFinding

_SIGNS = {"ok": "✓", "note": "·", "warning": "!", "bad": "✗"}
_COLORS = {"ok": "green", "note": None, "warning": "yellow", "bad": "red"}


@click.command("doctor")
@db_option
@server_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Form of the output.")
@color_option
@click.pass_context
def command(ctx: click.Context, db: str | None, server: str | None, output: str) -> None:
    """Look at versions, settings, the store, disk space, keys, tools and extras; with a server, at that and its clock.

    Exits with 0 when nothing is bad, else with 1.
    """
    from noetl.cli.doctor_checks import examined

    findings = examined(db, server)
    if output == "json":
        click.echo(as_json(findings))
    else:
        _print(findings)
    ctx.exit(1 if any(one.state == "bad" for one in findings) else 0)


def _print(findings: list[DoctorFinding]) -> None:
    rows = [(_SIGNS[one.state], one.what, one.found) for one in findings]
    for one, line in zip(findings, as_table(list(rows)), strict=True):
        click.echo(click.style(line[:1], fg=_COLORS[one.state]) + line[1:])
        if one.do:
            click.echo(f"   → {one.do}")
