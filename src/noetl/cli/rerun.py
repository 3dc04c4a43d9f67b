"""`noetl rerun`: a new run of what an execution ran, from the start or from a step (CLI-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import Reached, reads_server_option, server_meant
from noetl.cli.live_completion import STEP
from noetl.cli.queries import (
    ID_HELP,
    QueryRefused,
    db_option,
    find_execution,
    id_argument,
    pages,
    read,
    refusals,
    results_of,
)
from noetl.cli.run import Allowed, RunOptions, deny_option, kinds_option, sandbox_option
from noetl.cli.task import actor_option, role_option
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.engine.approvals import Consent
    from noetl.events.rerun_state import RerunState
    from noetl.net.net import Net
    from noetl.store.contract import ExecutionRow, Records, Results


@click.command("rerun", epilog=ID_HELP)
@id_argument
@click.option(
    "--from", "step", metavar="STEP", type=STEP, help="Begin at this step, with what was there when it last began."
)
@click.option(
    "--failed-items", is_flag=True, help="Of the loop only the items that were not done; the other results are kept."
)
@click.option("--version", metavar="VERSION", help="Another version of the playbook: its number or its label.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One input over those it had.")
@click.option("--payload", metavar="JSON|@FILE|@-", help="Other inputs, instead of those it had.")
@click.option("--approve", is_flag=True, help="Approve again what people approved before STEP for other inputs.")
@actor_option
@role_option
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Form of the output."
)
@kinds_option
@deny_option
@sandbox_option
@click.option("--quiet", "-q", is_flag=True, help="Only the result, not how it came about.")
@click.option("--detach", is_flag=True, help="On a server: print the new execution's id and do not wait.")
@db_option
@reads_server_option
@color_option
@click.pass_context
def command(
    ctx: click.Context,
    given: str,
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
    """Run again what an execution ran: the same version and inputs, unless others are given. It is a new execution.

    With --from one token goes to that step, with its arguments, the variables and the results of other steps as they
    were when the step last began. What else was under way then is not taken along. Human tasks that were completed
    before STEP hold for the same version and inputs; with others, whom they are for says --approve.

    With --failed-items the loop of the step runs again, but only the items that failed, or had not run; without --from
    it is the step whose loop has failed items.
    """
    if step is None and not failed_items and (approve or actor is not None or roles):
        raise click.UsageError("--approve, --as and --role are about tasks before a step: name it with --from")
    run = RunOptions(db, output, Allowed(allow, deny, sandbox), quiet)
    results = results_of(db)
    row, inputs = read(db, lambda history: _execution_and_inputs(history, given, results))
    inputs = _inputs(inputs, payload, settings)
    if (there := server_meant(db)) is not None:
        if actor is not None or roles:
            raise click.UsageError("on a server you are who your token says: leave --as and --role out")
        run.refuse_permissions_on(there)
        ctx.exit(
            _rerun_on_server(
                there, row, step, version, inputs, approve, failed_items, output=output, quiet=quiet, detach=detach
            )
        )
    if detach:
        raise click.UsageError("--detach is for runs on a server: a run here lives as long as this command")
    net = read(db, lambda history: _net(history, row)) if version is None else _registered(row, db, version)
    carried = None
    if step is None and failed_items:
        step = read(db, lambda history: _failed_loop(history, row))
    if step is not None:
        from getpass import getuser

        from noetl.engine.approvals import Consent

        consent = Consent(actor=actor or getuser(), roles=roles, approves=approve)
        carried = read(
            db, lambda history: _rerun_state(history, row, net, step, results, inputs, consent, failed_items)
        )
    ctx.exit(run.begin_net(net, inputs, carried=carried))


async def _execution_and_inputs(history: Records, given: str, results: Results) -> tuple[ExecutionRow, dict[str, Any]]:
    """The execution that is meant, and the inputs it had."""
    from noetl.events.executions import ExecutionRequested
    from noetl.events.large_values import put_back
    from noetl.store.contract import SingleRow

    row = await find_execution(history, given)
    [first] = await history.events(row.execution_id, only=SingleRow(limit=1))
    assert isinstance(first.payload, ExecutionRequested), "every stream begins with its request (SRV-01)"
    return row, put_back(first.payload, results.load).payload


def _inputs(before: dict[str, Any], payload: str | None, settings: tuple[str, ...]) -> dict[str, Any]:
    from noetl.cli.payload import payload_from
    from noetl.engine.pipeline.patches import overlaid

    given = payload_from(payload, settings)
    return given if payload is not None else overlaid(before, given)


def _rerun_on_server(
    there: Reached,
    row: ExecutionRow,
    step: str | None,
    version: str | None,
    inputs: dict[str, Any],
    approve: bool,
    failed_items: bool,
    *,
    output: str,
    quiet: bool,
    detach: bool,
) -> int:
    from noetl.cli.remote_run import followed
    from noetl.client import requests

    with refusals(), there.client() as client:
        started = client.send(requests.rerun(row.execution_id, version, inputs, step, approve, failed_items))
    if detach:
        click.echo(started.execution_id)
        return 0
    return followed(there, started.execution_id, output, quiet)


async def _net(history: Records, row: ExecutionRow) -> Net:
    """The very net that it ran, registered or not."""
    from noetl.net.encoding import from_json

    return from_json(await history.net(row.net_hash))


def _registered(row: ExecutionRow, db: str | None, version: str) -> Net:
    from noetl.cli.runnable import registered

    net = registered(row.path, db, version)
    if net is None:
        raise QueryRefused(f'no version "{visible(version)}" of {visible(row.path)} is registered in this store')
    return net


async def _rerun_state(
    history: Records,
    row: ExecutionRow,
    net: Net,
    step: str,
    results: Results,
    inputs: dict[str, Any],
    consent: Consent,
    failed_items: bool,
) -> RerunState:
    from noetl.control.nested.reruns import state_at_step
    from noetl.engine.approvals import ApprovedInputs
    from noetl.events.envelope import with_stored_values
    from noetl.net.encoding import content_hash

    events = [
        with_stored_values(event, results.load) async for page in pages(history, row.execution_id) for event in page
    ]
    now = ApprovedInputs(net_hash=content_hash(net), payload=inputs)
    return await state_at_step(history, row, step, events, net, now, consent, failed_items=failed_items)


async def _failed_loop(history: Records, row: ExecutionRow) -> str:
    from noetl.control.nested.reruns import failed_loops, only_failed_loop

    return only_failed_loop(await failed_loops(history, row.execution_id), row.execution_id)
