"""`noetl run --server`: register, start, follow. Ctrl-C lets go of the run, which goes on without us."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.files import STDIN
from noetl.cli.reading import INVALID, refusals

if TYPE_CHECKING:
    from noetl.cli.live import View
    from noetl.cli.reaching import Reached
    from noetl.client import AsyncClient
    from noetl.client.models import Result


def is_file(name: str) -> bool:
    return name == STDIN or Path(name).is_file()


def run_there(
    there: Reached,
    name: str,
    version: str | None,
    settings: Sequence[str],
    payload: str | None,
    *,
    output: str,
    quiet: bool,
    detach: bool,
) -> int:
    """Run a file, or a playbook that the server has, and say how it ended."""
    from noetl.cli.payload import payload_from

    inputs = payload_from(payload, settings)
    source = None
    if is_file(name):
        if version is not None:
            raise click.UsageError("--version chooses among registered playbooks, and this is a file")
        source = _checked(name)
        if source is None:
            return INVALID
    with refusals(), there.client() as client:
        if source is not None:
            registered = client.register(source)
            name, version = registered.path, str(registered.version)
        started = client.start(name, inputs, version=version)
    if detach:
        click.echo(started.execution_id)
        return 0
    return followed(there, started.execution_id, output, quiet)


def _checked(name: str) -> str | None:
    """The text of a file without errors; those it has are printed."""
    from noetl.checking import check
    from noetl.cli.files import read_source
    from noetl.cli.report import print_diagnostics
    from noetl.tools.kinds import load_kinds

    source = read_source(name)
    checked = check(source, kinds=load_kinds(), proofs=False)
    if checked.net is None:
        print_diagnostics(checked)
        return None
    return source.text


def followed(there: Reached, execution_id: str, output: str, quiet: bool, within_s: float | None = None) -> int:
    """Show an execution there as it goes, and say how it ended."""
    from noetl.cli.live import say
    from noetl.cli.watching import watched

    def let_go() -> None:
        say(f"execution {execution_id} goes on at {there.url}")
        say(f"come back with:  noetl watch {execution_id} --server {there.url}")
        say(f"cancel it with:  noetl cancel {execution_id} --server {there.url}")

    return watched(
        lambda view: _watched(there.aclient(), execution_id, view),
        output=output,
        quiet=quiet,
        let_go=let_go,
        within_s=within_s,
    )


async def _watched(client: AsyncClient, execution_id: str, view: View | None) -> Result:
    async with client:
        async for event in client.events(execution_id, follow=True):
            if view is not None:
                view([event])
        return await client.result(execution_id)
