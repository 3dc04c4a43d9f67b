"""`noetl pause`: hold an execution (CLI-02, SRV-07)."""

from __future__ import annotations

import click

from noetl.cli.connection import reads_server_option
from noetl.cli.control import reason_option, steer
from noetl.cli.queries import ID_HELP, db_option, id_argument
from noetl.cli.terminal import color_option


@click.command("pause", epilog=ID_HELP)
@id_argument
@reason_option
@db_option
@reads_server_option
@color_option
def command(given: str, reason: str | None, db: str | None) -> None:
    """Pause an execution: what runs may end, and nothing new is begun until it is resumed."""
    steer(given, "pause", reason=reason, db=db)
