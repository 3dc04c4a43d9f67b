"""`noetl run` and `rerun`: run a playbook in this process, or on a server (CLI-02, CLI-04, WRK-08).

The result goes to standard output, progress to standard error. Exit codes are those of design.md §6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from noetl.cli.completion import EXECUTION, RUNNABLE, STEP
from noetl.cli.connection import place_meant, place_of_run, place_options, read, server_option
from noetl.cli.files import accepting_options
from noetl.cli.queries import ID_HELP, INVALID, db_option, find_execution, id_argument
from noetl.cli.runs import RerunRequest
from noetl.cli.task import actor_option, role_option
from noetl.cli.terminal import color_option
from noetl.cli.tools import Allowed, deny_option, kinds_option, sandbox_option

if TYPE_CHECKING:
    from noetl.store.contract import ExecutionRow, Records, Results


class RunOptions(NamedTuple):
    """Options of the command line: how a run is shown, and what its tools may do."""

    output: str
    quiet: bool
    allowed: Allowed
    detach: bool = False


@click.command("run")
@click.argument("file", required=False, metavar="FILE|PATH|-", type=RUNNABLE)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set one input; a value that is JSON is read as JSON."
)
@click.option("--payload", metavar="JSON|@FILE|@-", help="Inputs, merged over the workload of the playbook.")
@click.option("--version", metavar="VERSION", help="Version of a registered playbook: its number or label.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Output format.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
@click.option(
    "--resume",
    "resume_id",
    metavar="ID",
    type=EXECUTION,
    help='Resume an interrupted run of this store; ID may be "last".',
)
@click.option(
    "--step", metavar="STEP", help="Run this step of a file alone: nothing follows it, nothing is registered."
)
@click.option("--step-inputs", metavar="JSON|@FILE|@-", help="With --step: inputs of the step, {args, ctx, results}.")
@click.option(
    "--like", metavar="ID", type=EXECUTION, help="With --step: take the inputs you do not give from this execution."
)
@db_option
@click.option("--memory", is_flag=True, help="Store nothing: the run cannot be resumed or read later.")
@server_option
@click.option("--detach", is_flag=True, help="On a server: print the execution's id and do not wait.")
@click.option("--local", is_flag=True, help="Run in this process, even if a server is configured.")
@kinds_option
@deny_option
@sandbox_option
@accepting_options
@color_option
@click.pass_context
def run_command(
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

    With --step, one step of a file runs alone; --set and --payload give its workload. Its tools run for real.

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
        changes = (settings, payload is not None, version is not None, memory, migrate, strict, step is not None)
        _refuse_beside_resume(changes=any(changes), elsewhere=server is not None or detach)
        # Always on a store: only a run of a store can lose its process.
        ctx.exit(EmbeddedRuns(db, options).resume(resume_id))
    assert file is not None
    # Before the text is read: an unsupported option is reported before a long check.
    runs = place_of_run(file, server, MEMORY if memory else db, here=memory or local).runs(options)
    playbook = named_playbook(file, version, strict=strict, migrates=migrate)
    if playbook is None:
        ctx.exit(INVALID)
    if step is None:
        ctx.exit(runs.run(playbook, payload_from(payload, settings)))
    if playbook.checked is None:
        raise click.UsageError(f"--step runs a step of a file, and {file} is not a file")
    inputs = step_test_inputs(step_inputs, payload_from(payload, settings))
    ctx.exit(runs.test_step(playbook, StepTest(step=step, inputs=inputs, like=like)))


def _refuse_mixtures(file: str | None, resume_id: str | None, step: str | None, *, has_step_options: bool) -> None:
    if file is None and resume_id is None:
        raise click.UsageError("name a playbook, or an execution with --resume ID")
    if file is not None and resume_id is not None:
        raise click.UsageError(
            f"both a playbook ({file}) and an execution (--resume {resume_id}) are named: an execution continues with "
            "the playbook that it began with, so leave the playbook out"
        )
    if step is None and has_step_options:
        raise click.UsageError("--step-inputs and --like are for one step: name it with --step")


def _refuse_beside_resume(*, changes: bool, elsewhere: bool) -> None:
    if changes:
        raise click.UsageError("a resumed run keeps its own playbook, inputs and store")
    if elsewhere:
        raise click.UsageError("--resume continues a run of a local store; a server resumes its own runs by itself")


# `noetl rerun`: a new run of what an execution ran, from the start or from a step (CLI-04).


@click.command("rerun", epilog=ID_HELP)
@id_argument
@click.option(
    "--from", "step", metavar="STEP", type=STEP, help="Begin at this step, with the data it had when it last began."
)
@click.option(
    "--failed-items", is_flag=True, help="Run only the items of the loop that are not done; keep the other results."
)
@click.option("--version", metavar="VERSION", help="Run another version of the playbook: its number or label.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one input.")
@click.option("--payload", metavar="JSON|@FILE|@-", help="Replace all inputs.")
@click.option("--approve", is_flag=True, help="Approve again what was approved before STEP with other inputs.")
@actor_option
@role_option
@click.option("-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Output format.")
@kinds_option
@deny_option
@sandbox_option
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
@click.option("--detach", is_flag=True, help="On a server: print the new execution's id and do not wait.")
@place_options
@color_option
@click.pass_context
def rerun_command(
    ctx: click.Context,
    reference: str,
    step: str | None,
    failed_items: bool,
    version: str | None,
    settings: tuple[str, ...],
    payload: str | None,
    approve: bool,
    actor: str | None,
    roles: tuple[str, ...],
    output: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    sandbox: bool,
    quiet: bool,
    detach: bool,
    db: str | None,
) -> None:
    """Run an execution again, as a new execution, with the same version and inputs unless you give others.

    With --from, the run begins at that step with one token. Arguments, variables and results of other steps are as they
    were when the step last began; other tokens of that time are not restored. Human tasks that were completed before
    STEP stay approved if version and inputs are the same. If not, a user they were assigned to must give --approve.

    With --failed-items, the loop of the step runs again for the items that failed or had not run. Without --from, it is
    the only step whose loop has failed items.
    """
    if step is None and not failed_items and (approve or actor is not None or roles):
        raise click.UsageError("--approve, --as and --role are about tasks before a step: name it with --from")
    place = place_meant(db)
    runs = place.runs(RunOptions(output, quiet, Allowed(allow, deny, sandbox), detach))
    row, before = read(db, lambda records: _execution_and_inputs(records, reference, place.results()))
    request = RerunRequest(
        row=row,
        inputs=_inputs(before, payload, settings),
        step=step,
        version=version,
        failed_items=failed_items,
        approve=approve,
        actor=actor,
        roles=roles,
    )
    ctx.exit(runs.rerun(request))


async def _execution_and_inputs(
    history: Records, reference: str, results: Results
) -> tuple[ExecutionRow, dict[str, Any]]:
    """The execution that `reference` means, and its inputs."""
    from noetl.events.executions import ExecutionRequested
    from noetl.events.large_values import put_back
    from noetl.store.contract import EventFilter

    row = await find_execution(history, reference)
    [first] = await history.events(row.execution_id, only=EventFilter(limit=1))
    assert isinstance(first.payload, ExecutionRequested), "every stream begins with its request (SRV-01)"
    return row, put_back(first.payload, results.load).payload


def _inputs(before: dict[str, Any], payload: str | None, settings: tuple[str, ...]) -> dict[str, Any]:
    from noetl.cli.payload import payload_from
    from noetl.templates.values import deep_merged

    changes = payload_from(payload, settings)
    # --payload replaces all inputs, --set changes some of the earlier ones.
    return changes if payload is not None else deep_merged(before, changes)
