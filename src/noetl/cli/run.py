"""`noetl run`: run a playbook here, in this process, with every event kept (CLI-02, WRK-08).

What the run gives goes to standard output; how it goes, to standard error. Exit codes are those of design.md §6.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from noetl.cli.accepted_text import accepting_options
from noetl.cli.connection import server_option
from noetl.cli.live_completion import EXECUTION, RUNNABLE
from noetl.cli.queries import (
    CODES,
    INTERRUPTED,
    INVALID,
    REFUSED,
    as_json,
    db_option,
    find_execution,
    read,
    refusals,
    resume_hint,
)
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.base.diagnostics import Diagnostic
    from noetl.cli.connection import Reached
    from noetl.cli.live import LiveView
    from noetl.cli.runnable import Runnable
    from noetl.events.projection.projection import Projection
    from noetl.events.rerun_state import RerunState
    from noetl.net.net import Net
    from noetl.operations.embedded import RunResult
    from noetl.store.contract import Records
    from noetl.tools.registry import Registry

MEMORY = ":memory:"


def _kinds(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """`--allow shell,script` and `--allow shell --allow script` mean the same."""
    from noetl.tools.permissions import ALLOWABLE

    kinds = tuple(kind.strip() for text in given for kind in text.split(",") if kind.strip())
    for kind in kinds:
        if kind not in ALLOWABLE:
            raise click.BadParameter(f'"{kind}" is not one of {", ".join(ALLOWABLE)}')
    return kinds


kinds_option = click.option(
    "--allow",
    multiple=True,
    callback=_kinds,
    metavar="KIND,…",
    help="Turn on what runs programs of this machine: shell, script, container, and mcp servers that are programs.",
)

deny_option = click.option(
    "--deny",
    multiple=True,
    callback=lambda _, __, given: tuple(kind.strip() for text in given for kind in text.split(",") if kind.strip()),
    metavar="KIND,…",
    help="Tool kinds that are not run, whatever else is allowed.",
)
sandbox_option = click.option(
    "--sandbox", is_flag=True, help="Run code of playbooks in sandboxes only: python, shell, script."
)


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
    run = RunOptions(MEMORY if memory else db, output, Allowed(allow, deny, sandbox), quiet)
    if resume_id is not None:
        if settings or payload is not None or version is not None or memory or migrate or strict:
            raise click.UsageError("a resumed run keeps its own playbook, inputs and store")
        if server is not None or detach:
            raise click.UsageError("--resume takes up a run of a store here; a server takes up its own by itself")
        ctx.exit(run.resume(resume_id))
    assert file is not None
    if (there := _server_for(file, server, db, here=memory or local)) is not None:
        from noetl.cli.remote_run import RemoteRun

        run.refuse_permissions_on(there)
        remote = RemoteRun(there, output=output, quiet=quiet, detach=detach, strict=strict, migrates=migrate)
        ctx.exit(remote.begin(file, version, settings, payload))
    if detach:
        raise click.UsageError("--detach is for runs on a server: a run here lives as long as this command")
    found = run.find_playbook(file, version, strict=strict, migrates=migrate)
    ctx.exit(run.begin(found, settings, payload) if found is not None else INVALID)


def _server_for(name: str, server: str | None, db: str | None, *, here: bool) -> Reached | None:
    """The server to run on, None to run here (design.md §2)."""
    from noetl.cli.connection import reached
    from noetl.cli.remote_run import is_file

    if here and server is not None:
        raise click.UsageError("--server runs it there, --local and --memory here")
    if here or (server is None and is_file(name)):
        return None
    return reached(server, db)


class Allowed(NamedTuple):
    """What tools may do in a run here: kinds that are turned on and off, and whether code needs a sandbox."""

    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    sandbox: bool = False

    def as_options(self) -> list[str]:
        """The same for a command of its own, such as `noetl worker start`."""
        given = [part for kind in self.allow for part in ("--allow", kind)]
        given += [part for kind in self.deny for part in ("--deny", kind)]
        return [*given, "--sandbox"] if self.sandbox else given


class RunOptions:
    """One run as the command line asked for it."""

    def __init__(self, place: str | None, output: str, allowed: Allowed, quiet: bool) -> None:
        self._place, self._output, self._allowed, self._quiet = place, output, allowed, quiet
        self._diagnostics: tuple[Diagnostic, ...] = ()

    def refuse_permissions_on(self, there: Reached) -> None:
        """What tools may do on a server, those who run its workers say."""
        given = [f"--{name}" for name, value in zip(Allowed._fields, self._allowed, strict=True) if value]
        if given:
            raise click.UsageError(
                f"{' and '.join(given)}: for runs here; what tools may do for {there.url} is said where its "
                "workers are started (noetl worker start)"
            )

    def find_playbook(self, name: str, version: str | None, *, strict: bool, migrates: bool) -> Runnable | None:
        """The playbook to run; None when it is refused."""
        from noetl.cli.runnable import runnable

        return runnable(name, self._place, version, strict=strict, migrates=migrates)

    def begin(self, found: Runnable, settings: Sequence[str], payload: str | None) -> int:
        from noetl.cli.live import print_line
        from noetl.cli.payload import doubts, payload_from

        inputs = payload_from(payload, settings)
        self._diagnostics = found.diagnostics
        for doubt in doubts(inputs, found.net.workload):
            print_line(doubt)
        return self.begin_net(found.net, inputs, origin=found.origin)

    def begin_net(
        self, net: Net, inputs: dict[str, Any], *, origin: Path | None = None, carried: RerunState | None = None
    ) -> int:
        """Run a net that was read from `origin`, or begin at a step with what is carried over from an earlier run."""
        from noetl.base.clock import SystemClock
        from noetl.base.ids import uuid7
        from noetl.events.projection.projection import Projection
        from noetl.operations.embedded import run_net

        execution_id = uuid7(SystemClock().now())
        view = self._view(Projection())
        running = run_net(
            net,
            payload=inputs,
            db=self._place,
            execution_id=execution_id,
            watch=view,
            tools=self._tools(),
            origin=origin,
            carried=carried,
        )
        return self._ended(running, execution_id, view)

    def resume(self, given: str) -> int:
        from noetl.cli.status import progress_of
        from noetl.operations.embedded import resume

        async def running_execution(history: Records) -> tuple[str, Projection]:
            row = await find_execution(history, given)
            return row.execution_id, await progress_of(history, row.execution_id)

        execution_id, progress = read(self._place, running_execution)
        view = self._view(progress)
        resuming = resume(execution_id, db=self._place, watch=view, tools=self._tools())
        return self._ended(resuming, execution_id, view)

    def _tools(self) -> Registry:
        """The tools of a run here. Refused where the command or the settings name a kind that there is not."""
        from noetl.operations.embedded import tools_here

        with refusals():
            return tools_here(*self._allowed)

    def _view(self, progress: Projection) -> LiveView | None:
        from noetl.cli.live import view_for

        return view_for(self._output, progress, quiet=self._quiet)

    def _ended(self, running: Coroutine[Any, Any, RunResult], execution_id: str, view: LiveView | None) -> int:
        """Wait for the run and tell how it ended."""
        from noetl.base.errors import BackendError, RefusedError
        from noetl.cli.interruption import Interrupted, run_interruptibly
        from noetl.cli.live import print_line, run_with_view
        from noetl.cli.protection import protect

        protect()

        def stopping() -> None:
            text = "interrupted: recording what is done; once more stops at once"
            view.print_line(text) if view is not None else print_line(text)

        try:
            result = run_interruptibly(
                run_with_view(running, view),
                at_first=stopping,
                at_second=lambda: view.close() if view is not None else None,  # the terminal gets its cursor back
                code=INTERRUPTED,
            )
        except Interrupted:
            self._say_how_to_resume(execution_id)
            return INTERRUPTED
        except (RefusedError, BackendError) as problem:
            click.echo(f"error: {problem}", err=True)
            if isinstance(problem, BackendError):
                self._say_how_to_resume(execution_id)
            return REFUSED
        self._print(result)
        return CODES[result.status.value]

    def _say_how_to_resume(self, execution_id: str) -> None:
        """Unless it was stopped before there was anything to resume."""
        if self._place == MEMORY:
            click.echo(f"execution {execution_id} has not ended", err=True)
        elif self._has_begun(execution_id):
            click.echo(f"execution {execution_id} has not ended", err=True)
            click.echo(f"take it up with: {resume_hint(self._place, execution_id)}", err=True)

    def _has_begun(self, execution_id: str) -> bool:
        import os

        from noetl.cli.queries import QueryRefused, place_of
        from noetl.store.open_store import is_database

        if not is_database(self._place) and not os.access(place_of(self._place), os.W_OK):
            return False  # even a reader would leave files beside it, as read-only as the store
        try:
            return read(self._place, lambda history: history.execution(execution_id)) is not None
        except QueryRefused:  # the store cannot be read either, which has been told
            return False

    def _print(self, result: RunResult) -> None:
        if self._output == "jsonl":
            return
        if self._output == "json":
            from noetl.cli.machine_report import as_objects

            click.echo(as_json({**msgspec.to_builtins(result), "diagnostics": as_objects(self._diagnostics)}))
            return
        if not self._quiet or not result.ok:
            _print_outcome(result)
        if isinstance(result.result, str):
            click.echo(result.result)
        elif result.result is not None:
            click.echo(as_json(result.result))


def _print_outcome(result: RunResult) -> None:
    """How it ended, for people."""
    from noetl.cli.live import print_line
    from noetl.cli.live_text import WHOLE, error_line, trace_lines

    color = {"completed": "green", "failed": "red"}.get(result.status.value, "yellow")
    why = f": {error_line(result.error, WHOLE)}" if result.error is not None else ""
    print_line(click.style(result.status.value, fg=color, bold=True) + why)
    for line in trace_lines(result.error) if result.error is not None else ():
        print_line(f"  {line}")
    print_line(f"execution {result.execution_id}, {result.events} events in {result.duration_s:.3f} s")
