"""`noetl resume`: let a paused execution go on (CLI-02, SRV-07)."""

from __future__ import annotations

import click

from noetl.cli.connection import reads_server_option
from noetl.cli.control import reason_option, steer
from noetl.cli.queries import ID_HELP, db_option, id_argument
from noetl.cli.terminal import color_option


@click.command("resume", epilog=ID_HELP)
@id_argument
@reason_option
@db_option
@reads_server_option
@color_option
def command(given: str, reason: str | None, db: str | None) -> None:
    """Go on with a paused execution. An interrupted one is taken up with noetl run --resume."""
    steer(given, "resume", reason=reason, db=db)
