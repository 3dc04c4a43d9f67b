"""`noetl server`: run a server here, and find again those that were started (CLI-01, design.md §2)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.processes import add_process_commands, addresses_option, processes_option
from noetl.cli.terminal import color_option
from noetl.cli.tools import deny_option, kinds_option, sandbox_option

if TYPE_CHECKING:
    from noetl.base.settings import Settings

_READY_S = 60.0


@click.group("server")
@color_option
def command() -> None:
    """Run a server: it decides and records; workers run the tools."""


@command.command("start")
@click.option("--host", metavar="ADDRESS", help="Where to listen.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port; 0 takes any free one.  [default: 8082]")
@click.option(
    "--db", metavar="PATH|URL", help="Store: a file, or postgresql://…; without it, the one in your data folder."
)
@click.option("--nats", metavar="URL", help="A broker that wakes workers of several servers sooner.")
@click.option("--tls-cert", metavar="FILE", help="Certificate, to serve https.")
@click.option("--tls-key", metavar="FILE", help="Its key.")
@click.option("--ca", metavar="FILE", help="The authority of a private certificate, in PEM; --context remembers it.")
@click.option("--behind-proxy", is_flag=True, default=None, help="A proxy in front of it does TLS.")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS|NETWORK",
    help="A proxy whose X-Forwarded-For is believed.  [default with --behind-proxy: this machine]",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name people reach it by; *.NAME for all below.",
)
@processes_option
@click.option(
    "--workers-in-process", type=click.IntRange(0), metavar="N", help="Orders that each process runs.  [default: 0]"
)
@click.option("--token-file", metavar="FILE", help="Where the first token goes; without it, it is printed once.")
@kinds_option
@deny_option
@sandbox_option
@addresses_option
@click.option(
    "--context", metavar="NAME", help="Remember its address, and a token of an administrator, as this context."
)
@click.option("--detach", is_flag=True, help="Run it in the background.")
@color_option
def start_command(detach: bool, context: str | None, **flags: Any) -> None:
    """Start a server and serve the API until it is stopped.

    The first start on a store makes a token for an administrator and a master key for credentials, where there has been
    none. Listening on anything but this machine's own address needs tokens, and TLS or --behind-proxy. SIGTERM or
    Ctrl-C stops it once the requests under way are answered.
    """
    from noetl.base.settings import load_settings
    from noetl.cli.queries import refusals

    with refusals():
        overrides = {name: list(value) or None if isinstance(value, tuple) else value for name, value in flags.items()}
        overrides["sandbox"] = overrides["sandbox"] or None
        settings = load_settings(overrides).settings
        if detach:
            _detach(settings)
            return
        from noetl.cli.server_process import Announced, run_server, server_settings

        announced = Announced(token_file=settings.token_file, context=context, ca=settings.ca)
        run_server(server_settings(settings), announced, processes=settings.processes)


def _detach(settings: Settings) -> None:
    """Start the server in the background. It passes the first token in a file, so that the token is in no log."""
    from noetl.base.settings import state_folder
    from noetl.cli.contexts import read_token
    from noetl.cli.processes import Record, detached
    from noetl.cli.server_process import print_master_key, print_token

    own = settings.token_file is None
    token_file = state_folder() / "first-token"
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"] + (
        ["--token-file", str(token_file)] if own else []
    )

    def ready(record: Record) -> None:
        click.echo(f"server {record.name} ({record.pid}) at {record.url}")
        if "master_key" in record.detail:
            print_master_key(record.detail["master_key"])
        if "context_token" in record.detail:
            click.echo(record.detail["context_token"], err=True)

    try:
        detached(arguments, "server", within_s=_READY_S, ready=ready)
        if own and token_file.exists():
            print_token(read_token(token_file))
    finally:
        if own:
            token_file.unlink(missing_ok=True)


def _status(record: Any) -> tuple[str, ...]:
    return (record.detail.get("store", ""),)


add_process_commands(command, "server", heads=("STORE",), more=_status)
