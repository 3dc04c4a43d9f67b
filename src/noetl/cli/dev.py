"""`noetl dev`: a server with its worker and its store on one port, for whoever sits at this machine (design.md §2)."""

from __future__ import annotations

import sys

import click

from noetl.cli.terminal import color_option
from noetl.cli.tool_options import Allowed, deny_option, kinds_option, sandbox_option

CONTEXT = "dev"


@click.command("dev")
@click.option("--db", metavar="PATH|URL", help="Store; without it, the file that `noetl run` uses.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="0 takes any that is free.  [default: 8082]")
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--cluster", is_flag=True, help="PostgreSQL, NATS, two servers and two workers instead.")
@kinds_option
@deny_option
@sandbox_option
@color_option
def command(
    db: str | None,
    port: int | None,
    no_open: bool,
    cluster: bool,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    sandbox: bool,
) -> None:
    """Run everything here: server, worker and store, on one port of this machine.

    Its address and the first token are printed once; the token is kept as the context "dev" (of --cluster: "cluster"),
    so that `noetl run FILE --server dev` finds it. Ctrl-C ends it; what had not ended goes on at the next start.
    """
    from noetl.base.settings import load_settings
    from noetl.cli.queries import refusals

    with refusals():
        if cluster:
            if db is not None:
                raise click.UsageError("--cluster brings a PostgreSQL of its own: leave --db out")
            from noetl.cli.cluster import run_cluster

            run_cluster(port=port, opens=not no_open, permissions=Allowed(allow, deny, sandbox))
            return
        from noetl.cli.server_process import Announced, run_server, server_settings

        flags = {"allow": list(allow) or None, "deny": list(deny) or None, "sandbox": sandbox or None}
        settings = load_settings({"db": db, "port": port, **flags}).settings
        serving = server_settings(settings, host="127.0.0.1", workers=settings.concurrency, local=True)
        run_server(serving, Announced(context=CONTEXT, then=None if no_open else open_browser))


def open_browser(url: str) -> None:
    """Only where somebody looks at a terminal. The token is in the part of the address that no server is sent; the page
    exchanges it for a session and forgets it."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        import webbrowser

        from noetl.cli.contexts import token_for

        token = token_for(url)
        webbrowser.open(f"{url}/#token={token}" if token else url)
