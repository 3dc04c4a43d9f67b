"""`noetl cancel`: end an execution before its time (CLI-02, SRV-11)."""

from __future__ import annotations

import click

from noetl.cli.connection import reads_server_option
from noetl.cli.control import reason_option, steer
from noetl.cli.queries import ID_HELP, db_option, id_argument
from noetl.cli.terminal import color_option


@click.command("cancel", epilog=ID_HELP)
@id_argument
@reason_option
@click.option("--compensate", is_flag=True, help="Undo first what its steps have done, in reverse.")
@db_option
@reads_server_option
@color_option
def command(given: str, reason: str | None, compensate: bool, db: str | None) -> None:
    """Cancel an execution: what runs is stopped, and it ends as cancelled, with its children."""
    steer(given, "compensate" if compensate else "cancel", reason=reason, db=db)
