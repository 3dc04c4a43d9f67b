"""`noetl run`: run a playbook here, in this process, with every event kept (CLI-02, WRK-08).

What the run gives goes to standard output; how it goes, to standard error. Exit codes are those of DESIGN §6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.embedded import RunResult
    from noetl.net.net import Net
    from noetl.records.envelope import Event

DONE, FAILED, INVALID, REFUSED, INTERRUPTED = 0, 1, 3, 4, 130


@click.command("run")
@click.argument("file", required=False, metavar="FILE|-")
@click.option("--db", metavar="PATH", help="Store file; without it, the one in your data folder.")
@click.option("--memory", is_flag=True, help="Keep nothing: the run cannot be resumed or read later.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One input; JSON values are taken as such.")
@click.option("--payload", metavar="JSON|@FILE|@-", help="Inputs laid over the playbook's workload.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Form of the output."
)
@click.option("--resume", "resume_id", metavar="ID", help="Take up an interrupted run of this store.")
@click.option("--local", is_flag=True, hidden=True, help="Run here; that is what this command does.")
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
    local: bool,
) -> None:
    """Run a playbook here and print its result.

    Exits with 0 when it is done, 1 when it failed, 3 when the playbook has errors, 4 when it cannot be run here,
    130 when it was interrupted.
    """
    if (file is None) == (resume_id is None):
        raise click.UsageError("name a playbook file, or an execution with --resume ID")
    place = ":memory:" if memory else db
    if resume_id is not None:
        if settings or payload is not None or memory:
            raise click.UsageError("a resumed run keeps its own inputs and its store")
        ctx.exit(_resume(resume_id, place, output))
    assert file is not None
    ctx.exit(_run(file, place, settings, payload, output))


def _run(file: str, place: str | None, settings: Sequence[str], payload: str | None, output: str) -> int:
    from noetl.cli.payload import payload_from

    inputs = payload_from(payload, settings)
    net = _checked(file)
    if net is None:
        return INVALID
    from noetl.clock import SystemClock
    from noetl.embedded import run_net
    from noetl.ids import uuid7

    execution_id = uuid7(SystemClock().now())
    running = run_net(net, payload=inputs, db=place, execution_id=execution_id, watch=_watching(output))
    return _ended(running, execution_id, place, output)


def _resume(execution_id: str, place: str | None, output: str) -> int:
    from noetl.embedded import resume

    return _ended(resume(execution_id, db=place, watch=_watching(output)), execution_id, place, output)


def _checked(file: str) -> Net | None:
    """The net, or None when there are errors, which are printed then."""
    from noetl.checking import check
    from noetl.cli.files import read_source
    from noetl.tools.kinds import load_kinds

    checked = check(read_source(file), kinds=load_kinds(), proofs=False)
    if checked.net is None:
        from noetl.cli.report import print_diagnostics

        print_diagnostics(checked)
    return checked.net


def _watching(output: str) -> Any:
    """Who hears of events as they are committed."""
    if output == "jsonl":
        return _print_events
    if output == "json":
        return None
    from noetl.cli.live import Live

    return Live(lambda line: click.echo(line, err=True), paint=click.style)


def _print_events(events: Sequence[Event]) -> None:
    import msgspec

    from noetl.records.envelope import readable

    for event in events:
        click.echo(msgspec.json.encode(readable(event)))


def _ended(running: Coroutine[Any, Any, RunResult], execution_id: str, place: str | None, output: str) -> int:
    """Wait for the run and tell how it ended."""
    from noetl.errors import BackendError, RefusedError

    try:
        result = asyncio.run(running)
    except KeyboardInterrupt:
        click.echo(f"interrupted: execution {execution_id} has not ended", err=True)
        if place != ":memory:":
            option = f" --db {place}" if place else ""
            click.echo(f"take it up with: noetl run{option} --resume {execution_id}", err=True)
        return INTERRUPTED
    except (RefusedError, BackendError) as problem:
        click.echo(f"error: {problem}", err=True)
        return REFUSED
    _print(result, output)
    return DONE if result.ok else FAILED


def _print(result: RunResult, output: str) -> None:
    import msgspec

    if output == "jsonl":
        return
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(result)))
        return
    from noetl.cli.live import told

    if result.error is not None:
        click.echo(click.style("failed", fg="red", bold=True) + f": {told(result.error)}", err=True)
    else:
        click.echo(click.style(result.status.value, fg="green", bold=True), err=True)
    click.echo(f"execution {result.execution_id}, {result.events} events in {result.duration_s:.3f} s", err=True)
    if isinstance(result.result, str):
        click.echo(result.result)
    elif result.result is not None:
        click.echo(msgspec.json.format(msgspec.json.encode(result.result)))
