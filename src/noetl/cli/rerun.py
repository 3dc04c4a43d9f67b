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
    """Run again what an execution ran: the same version and inputs, unless others are given. It is a new execution.

    With --from one token goes to that step, with its arguments, the variables and the results of other steps as they
    were when the step last began. What else was under way then is not taken along. Human tasks that were completed
    before STEP hold for the same version and inputs; with others, whom they are for says --approve.

    With --failed-items the loop of the step runs again, but only the items that failed, or had not run; without --from
    it is the step whose loop has failed items.
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
