"""`noetl run`: run a playbook in this process, or on a server (CLI-02, WRK-08).

What the run gives goes to standard output; how it goes, to standard error. Exit codes are those of design.md §6.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from noetl.cli.completion import EXECUTION, RUNNABLE
from noetl.cli.connection import place_of_run, server_option
from noetl.cli.files import accepting_options
from noetl.cli.queries import INVALID, db_option
from noetl.cli.terminal import color_option
from noetl.cli.tool_options import Allowed, deny_option, kinds_option, sandbox_option


class RunOptions(NamedTuple):
    """How a run is shown, and what it may do, as the command line asked for it."""

    output: str
    quiet: bool
    allowed: Allowed
    detach: bool = False


@click.command("run")
@click.argument("file", required=False, metavar="FILE|PATH|-", type=RUNNABLE)
@db_option
@click.option("--memory", is_flag=True, help="Keep nothing: the run cannot be resumed or read later.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One input; JSON values are taken as such.")
@click.option("--payload", metavar="JSON|@FILE|@-", help="Inputs laid over the playbook's workload.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Form of the output."
)
@click.option(
    "--resume",
    "resume_id",
    metavar="ID",
    type=EXECUTION,
    help='Take up an interrupted run of this store; "last" is one too.',
)
@kinds_option
@accepting_options
@deny_option
@sandbox_option
@click.option("--version", metavar="VERSION", help="Of a registered playbook: its number or its label.")
@click.option("--quiet", "-q", is_flag=True, help="Only the result, not how it came about.")
@server_option
@click.option("--detach", is_flag=True, help="On a server: print the execution's id and do not wait.")
@click.option("--local", is_flag=True, help="Run here, even where a server is configured.")
@color_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str | None,
    db: str | None,
    memory: bool,
    settings: tuple[str, ...],
    payload: str | None,
    output: str,
    resume_id: str | None,
    allow: tuple[str, ...],
    strict: bool,
    migrate: bool,
    deny: tuple[str, ...],
    sandbox: bool,
    version: str | None,
    quiet: bool,
    server: str | None,
    detach: bool,
    local: bool,
) -> None:
    """Run a playbook and print its result: a file here, in this process; a registered one on the server, where one is
    configured; with --server either of them there.

    Here, the path of a playbook that was registered or run before in this store will do as well.

    On a terminal the run is shown as it goes; piped, as plain lines on standard error. Ctrl-C records what is done and
    says how to go on later; a second one stops at once. Warnings about a file are always shown, on standard error.

    Exits with 0 when it is done, 1 when it failed, 3 when the playbook has errors, 4 when it cannot be run here,
    5 when it was cancelled, 130 when it was interrupted.
    """
    if (file is None) == (resume_id is None):
        raise click.UsageError("name a playbook, or an execution with --resume ID")
    from noetl.cli.embedded_runs import MEMORY, EmbeddedRuns
    from noetl.cli.payload import payload_from
    from noetl.cli.runs import named_playbook

    options = RunOptions(output, quiet, Allowed(allow, deny, sandbox), detach)
    if resume_id is not None:
        if settings or payload is not None or version is not None or memory or migrate or strict:
            raise click.UsageError("a resumed run keeps its own playbook, inputs and store")
        if server is not None or detach:
            raise click.UsageError("--resume takes up a run of a store here; a server takes up its own by itself")
        ctx.exit(EmbeddedRuns(db, options).resume(resume_id))
    assert file is not None
    runs = place_of_run(file, server, MEMORY if memory else db, here=memory or local).runs(options)
    playbook = named_playbook(file, version, strict=strict, migrates=migrate)
    ctx.exit(runs.run(playbook, payload_from(payload, settings)) if playbook is not None else INVALID)
