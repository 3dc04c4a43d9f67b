"""`stop` and `status` of the processes that were started here: the same for servers and workers (CLI-01)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.queries import QueryRefused, as_json, refusals
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.cli.processes import Record

addresses_option = click.option(
    "--allow-address",
    "allow_addresses",
    multiple=True,
    metavar="NETWORK|HOST|unix:PATH",
    help="A private network, address, host name or Unix socket that tools may reach all the same.",
)

_FORMS = click.Choice(["table", "json"])
_WITHIN_S = 40.0  # a drain of 30 s, and the time to say goodbye


def add_process_commands(
    group: click.Group, kind: str, *, heads: tuple[str, ...], more: Callable[[Record], tuple[Any, ...]]
) -> None:
    """Give `group` its `stop` and `status`; `more` are further columns of a process."""

    @group.command("stop", help=f"Stop a {kind} that was started here, by its name or number, and wait for its end.")
    @click.argument("given", required=False, metavar="NAME|PID")
    @click.option("--all", "everything", is_flag=True, help="All of them.")
    @click.option("--timeout", type=click.FloatRange(0), default=_WITHIN_S, metavar="S", help="How long to wait.")
    @click.option("--force", is_flag=True, help="Kill it when it has not ended in time.")
    @color_option
    def stop_command(given: str | None, everything: bool, timeout: float, force: bool) -> None:
        from noetl.cli.processes import chosen, stop

        with refusals():
            records = chosen(kind, given, everything=everything)
        if not records:
            click.echo(f"no {kind} runs here")
        for record in records:
            if not stop(record, within_s=timeout, force=force):
                raise QueryRefused(
                    f"{kind} {record.name} ({record.pid}) has not ended after {timeout:g} s: say --force"
                )
            click.echo(f"stopped {kind} {record.name} ({record.pid})")

    @group.command("status", help=f"Show the {kind}s that were started here. Exits with 0 when there is one, else 4.")
    @click.option("-o", "--output", type=_FORMS, default="table", help="Form of the output.")
    @color_option
    @click.pass_context
    def status_command(ctx: click.Context, output: str) -> None:
        from noetl.cli.connection import as_table
        from noetl.cli.live_text import lasted
        from noetl.cli.processes import listed

        records = listed(kind)
        if output == "json":
            click.echo(as_json(records))
        elif records:
            rows: list[tuple[Any, ...]] = [("NAME", "PID", "URL", "UP", *heads)]
            rows += [(one.name, one.pid, one.url, lasted(time.time() - one.at), *more(one)) for one in records]
            click.echo("\n".join(as_table(rows)))
        else:
            click.echo(f"no {kind} runs here")
        ctx.exit(0 if records else QueryRefused.exit_code)
