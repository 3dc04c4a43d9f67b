"""`noetl cancel`: end an execution before its time (CLI-02, SRV-11)."""

from __future__ import annotations

import click

from noetl.cli.reading import ID_HELP, db_option, id_argument
from noetl.cli.steering import reason_option, steer
from noetl.cli.terminal import color_option


@click.command("cancel", epilog=ID_HELP)
@id_argument
@reason_option
@db_option
@color_option
def command(given: str, reason: str | None, db: str | None) -> None:
    """Cancel an execution: what runs is stopped, and it ends as cancelled, with its children."""
    steer(given, "cancel", reason=reason, db=db)
