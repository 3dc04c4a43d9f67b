"""`noetl run --server`: register, start, follow. Ctrl-C lets go of the run, which goes on without us."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.base.errors import NoetlError
from noetl.cli.files import STDIN
from noetl.cli.queries import INVALID, refusals
from noetl.cli.terminal import visible

if TYPE_CHECKING:
    from noetl.cli.connection import Reached
    from noetl.cli.live import LiveView
    from noetl.client import AsyncClient
    from noetl.client.models import StartedExecution
    from noetl.language.checking import Checked
    from noetl.operations.api_shapes import ResultView


SILENT_S = 3.0  # twice of it without an event, and whoever watches wants to know why


def is_file(name: str) -> bool:
    return name == STDIN or Path(name).is_file()


class RemoteRun:
    """One run on a server as the command line asked for it."""

    def __init__(
        self, there: Reached, *, output: str, quiet: bool, detach: bool, strict: bool = False, migrates: bool = False
    ) -> None:
        self._there, self._output, self._quiet, self._detach = there, output, quiet, detach
        self._strict, self._migrates = strict, migrates

    def begin(self, name: str, version: str | None, settings: Sequence[str], payload: str | None) -> int:
        """Run a file, or a playbook that the server has, and say how it ended."""
        from noetl.cli.payload import payload_from

        inputs = payload_from(payload, settings)
        file = None
        if is_file(name):
            if version is not None:
                raise click.UsageError("--version chooses among registered playbooks, and this is a file")
            file = self._accepted(name)
            if file is None:
                return INVALID
        with refusals(), self._there.client() as client:
            if file is not None:
                registered = client.register(file.source.text, schedule=False)
                name, version = registered.path, str(registered.version)
            started = client.start(name, inputs, version=version)
        if file is None:
            print_warnings_of(started)
        elif file.net is not None and file.net.trigger is not None:
            self._print_schedule_is_left(name, version)
        if self._detach:
            click.echo(started.execution_id)
            return 0
        return followed(self._there, started.execution_id, self._output, self._quiet, started=started)

    def _accepted(self, name: str) -> Checked | None:
        from noetl.cli.accepted_text import accepted
        from noetl.cli.files import read_source

        return accepted(read_source(name), strict=self._strict, migrates=self._migrates)

    def _print_schedule_is_left(self, path: str, version: str | None) -> None:
        from noetl.cli.live import print_line

        if not self._quiet:
            print_line(
                f"runs {visible(path)} version {version} once; its trigger is not set by this: noetl register does that"
            )


def print_warnings_of(started: StartedExecution) -> None:
    """What the server says about the playbook that it runs; a local file has been shown with its lines already."""
    for found in started.diagnostics:
        place = f"{visible(started.catalog_id or started.path)}:{found.get('line')}:{found.get('column')}"
        click.echo(
            f"{place}: {found.get('severity')}[{found.get('code')}]: {visible(str(found.get('message')))}", err=True
        )


def followed(
    there: Reached,
    execution_id: str,
    output: str,
    quiet: bool,
    within_s: float | None = None,
    *,
    started: StartedExecution | None = None,
) -> int:
    """Show an execution there as it goes, and say how it ended. `started` is told where it was begun just now."""
    from noetl.cli.follow import watched
    from noetl.cli.live import print_line

    def let_go() -> None:
        print_line(f"execution {execution_id} goes on at {there.url}")
        print_line(f"come back with:  noetl watch {execution_id} --server {there.url}")
        print_line(f"cancel it with:  noetl cancel {execution_id} --server {there.url}")

    return watched(
        lambda view: _watched(there.aclient(), execution_id, view),
        output=output,
        quiet=quiet,
        let_go=let_go,
        within_s=within_s,
        diagnostics=started.diagnostics if started is not None else None,
    )


async def _watched(client: AsyncClient, execution_id: str, view: LiveView | None) -> ResultView:
    async with client:
        if view is None:
            async for _ in client.events(execution_id, follow=True):
                pass
            return await client.result(execution_id)
        silence = _Silence(client, execution_id, view)
        explaining = asyncio.ensure_future(silence.explain())
        try:
            async for event in client.events(execution_id, follow=True):
                silence.end()
                view([event])
        finally:
            explaining.cancel()
            with suppress(asyncio.CancelledError):
                await explaining
        return await client.result(execution_id)


class _Silence:
    """When nothing happens for a while, whoever watches is told what holds the execution, once for each reason: without
    a worker for its pool it would wait for ever, and no event says so."""

    def __init__(self, client: AsyncClient, execution_id: str, view: LiveView) -> None:
        self._client, self._execution_id, self._view = client, execution_id, view
        self._heard = True
        self._told: set[str] = set()

    def end(self) -> None:
        self._heard = True

    async def explain(self) -> None:
        while True:
            await asyncio.sleep(SILENT_S)
            if not self._heard:
                await self._ask()
            self._heard = False

    async def _ask(self) -> None:
        try:
            found = await self._client.explain(self._execution_id)
        except NoetlError:
            return  # the stream of events says what is wrong with the server
        for sentence in found["sentences"] if found["stuck"] else ():
            if sentence not in self._told:
                self._told.add(sentence)
                self._view.print_line(f"· {visible(sentence)}")
