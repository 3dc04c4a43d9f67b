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
@click.option("--memory", is_flag=True, help="Store nothing: the run cannot be resumed or read later.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set one input; a value that is JSON is read as JSON."
)
@click.option("--payload", metavar="JSON|@FILE|@-", help="Inputs, merged over the workload of the playbook.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Output format.")
@click.option(
    "--resume",
    "resume_id",
    metavar="ID",
    type=EXECUTION,
    help='Resume an interrupted run of this store; ID may be "last".',
)
@kinds_option
@accepting_options
@deny_option
@sandbox_option
@click.option("--version", metavar="VERSION", help="Version of a registered playbook: its number or label.")
@click.option(
    "--step", metavar="STEP", help="Run this step of a file alone: nothing follows it, nothing is registered."
)
@click.option("--step-inputs", metavar="JSON|@FILE|@-", help="What the step reads, with --step: {args, ctx, results}.")
@click.option(
    "--like", metavar="ID", type=EXECUTION, help="With --step: what it read in this execution, where nothing is given."
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
@server_option
@click.option("--detach", is_flag=True, help="On a server: print the execution's id and do not wait.")
@click.option("--local", is_flag=True, help="Run in this process, even if a server is configured.")
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
    step: str | None,
    step_inputs: str | None,
    like: str | None,
    quiet: bool,
    server: str | None,
    detach: bool,
    local: bool,
) -> None:
    """Run a playbook and print its result on standard output. Progress goes to standard error.

    A file runs in this process. The path of a registered playbook runs on the server, if one is configured, and
    otherwise in this process. With --server, both run there.

    With --step, one step of a file runs alone, --set and --payload being its workload. Its tools run for real.

    Ctrl-C records what is done and prints how to resume the run; a second Ctrl-C stops at once. Warnings about a file
    are always shown.

    Exit codes: 0 completed, 1 failed, 3 the playbook has errors, 4 it cannot run here, 5 cancelled, 130 interrupted.
    """
    _refuse_mixtures(file, resume_id, step, has_step_options=step_inputs is not None or like is not None)
    from noetl.cli.embedded_runs import MEMORY, EmbeddedRuns
    from noetl.cli.payload import payload_from, step_test_inputs
    from noetl.cli.runs import StepTest, named_playbook

    options = RunOptions(output, quiet, Allowed(allow, deny, sandbox), detach)
    if resume_id is not None:
        _refuse_beside_resume(
            changes=any(
                (settings, payload is not None, version is not None, memory, migrate, strict, step is not None)
            ),
            elsewhere=server is not None or detach,
        )
        ctx.exit(EmbeddedRuns(db, options).resume(resume_id))
    assert file is not None
    runs = place_of_run(file, server, MEMORY if memory else db, here=memory or local).runs(options)
    playbook = named_playbook(file, version, strict=strict, migrates=migrate)
    if playbook is None:
        ctx.exit(INVALID)
    if step is None:
        ctx.exit(runs.run(playbook, payload_from(payload, settings)))
    if playbook.checked is None:
        raise click.UsageError(f"--step runs a step of a file, and {file} is none")
    inputs = step_test_inputs(step_inputs, payload_from(payload, settings))
    ctx.exit(runs.test_step(playbook, StepTest(step=step, inputs=inputs, like=like)))


def _refuse_mixtures(file: str | None, resume_id: str | None, step: str | None, *, has_step_options: bool) -> None:
    if (file is None) == (resume_id is None):
        raise click.UsageError("name a playbook, or an execution with --resume ID")
    if step is None and has_step_options:
        raise click.UsageError("--step-inputs and --like are for one step: name it with --step")


def _refuse_beside_resume(*, changes: bool, elsewhere: bool) -> None:
    if changes:
        raise click.UsageError("a resumed run keeps its own playbook, inputs and store")
    if elsewhere:
        raise click.UsageError("--resume takes up a run of a store here; a server takes up its own by itself")
