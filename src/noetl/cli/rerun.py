"""`noetl rerun`: a new run of what an execution ran, from the start or from a step (CLI-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noetl.cli.completion import STEP
from noetl.cli.connection import place_meant, place_options, read
from noetl.cli.queries import ID_HELP, find_execution, id_argument
from noetl.cli.run import RunOptions
from noetl.cli.runs import RerunRequest
from noetl.cli.task import actor_option, role_option
from noetl.cli.terminal import color_option
from noetl.cli.tool_options import Allowed, deny_option, kinds_option, sandbox_option

if TYPE_CHECKING:
    from noetl.store.contract import ExecutionRow, Records, Results


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
    row, before = read(db, lambda records: _execution_and_inputs(records, given, place.results()))
    again = RerunRequest(
        row=row,
        inputs=_inputs(before, payload, settings),
        step=step,
        version=version,
        failed_items=failed_items,
        approve=approve,
        actor=actor,
        roles=roles,
    )
    ctx.exit(runs.rerun(again))


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
