"""Embedded runs: this process drives the execution on a store of this machine, with every event recorded (WRK-08).

The contract is `Runs` of `cli/runs.py`, which says why this is not a call of the port like everything else.
`noetl run --resume` continues an interrupted run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from noetl.cli import queries
from noetl.cli.connection import StorePlace, read_at
from noetl.cli.files import STDIN, Unreadable, folder_error
from noetl.cli.own_process import pause_collection, protect, tune_collection
from noetl.cli.terminal import as_json, visible
from noetl.cli.watch import print_result, styled_status

if TYPE_CHECKING:
    from noetl.base.diagnostics import Diagnostic
    from noetl.cli.live import LiveView
    from noetl.cli.run import RunOptions
    from noetl.cli.runs import NamedPlaybook, RerunRequest, StepTest
    from noetl.events.executions import RerunState
    from noetl.events.projection.projection import Projection
    from noetl.net.net import Net
    from noetl.operations.attempt_shapes import StepTestInputs
    from noetl.operations.embedded import RunResult
    from noetl.store.contract import Records, Store
    from noetl.tools.registry import Registry

MEMORY = ":memory:"
Found = TypeVar("Found")


class EmbeddedRuns:
    """Runs in this process, on the store `db`."""

    def __init__(self, db: str | None, options: RunOptions) -> None:
        pause_collection()
        self._db, self._options, self._place = db, options, StorePlace(db)
        # The diagnostics of the file, for JSON output.
        self._diagnostics: tuple[Diagnostic, ...] = ()
        if options.detach:
            raise click.UsageError("--detach is for runs on a server: a run here lives as long as this command")

    def run(self, playbook: NamedPlaybook, inputs: dict[str, Any]) -> int:
        from noetl.cli.live import print_line
        from noetl.cli.payload import doubts

        checked = playbook.checked
        net = checked.net if checked is not None else self._registered_net(playbook.name, playbook.version)
        if net is None:
            raise self._no_playbook(playbook)
        self._diagnostics = checked.diagnostics if checked is not None else ()
        for doubt in doubts(inputs, net.workload):
            print_line(doubt)
        is_file = checked is not None and playbook.name != STDIN
        return self._begin(net, inputs, origin=Path(playbook.name) if is_file else None)

    def rerun(self, request: RerunRequest) -> int:
        from noetl.net.net import from_json

        row, version = request.row, request.version
        # Without a version, use the net of the earlier execution, registered or not.
        if version is None:
            net = from_json(read_at(self._place, lambda records: records.net(row.net_hash)))
        elif (registered := self._registered_net(row.path, version)) is not None:
            net = registered
        else:
            raise queries.QueryRefused(
                f'no version "{visible(version)}" of {visible(row.path)} is registered in this store'
            )
        carried = read_at(self._place, lambda records: self._rerun_state(records, net, request))
        return self._begin(net, request.inputs, carried=carried)

    def test_step(self, playbook: NamedPlaybook, test: StepTest) -> int:
        from noetl.operations.step_tests import initial_test_state, single_step_net

        assert playbook.checked is not None, "the command takes files only"
        assert playbook.checked.net is not None, "a text with errors was refused"
        load = self._place.results().load
        with queries.refusals():
            net = single_step_net(playbook.checked.net, test.step)
            recorded, inputs = None, test.inputs
            if test.like is not None:
                recorded, inputs = read_at(self._place, lambda records: self._recorded_inputs(records, net, test))
            state = initial_test_state(test.step, inputs, recorded, load)
        self._diagnostics = playbook.checked.diagnostics
        origin = Path(playbook.name) if playbook.name != STDIN else None
        return self._begin(net, inputs.workload, origin=origin, carried=state)

    async def _recorded_inputs(self, records: Records, net: Net, test: StepTest) -> tuple[RerunState, StepTestInputs]:
        """The state that the step read in an earlier execution, and its inputs with those of the test over them."""
        from noetl.events.envelope import with_stored_values
        from noetl.operations.executions import event_pages
        from noetl.operations.step_tests import merged_inputs, recorded_inputs, recorded_state

        assert test.like is not None
        row, load = await queries.find_execution(records, test.like), self._place.results().load
        events = [
            with_stored_values(event, load) async for page in event_pages(records, row.execution_id) for event in page
        ]
        state = recorded_state(row.execution_id, row.trace_id, events, net, test.step)
        return state, merged_inputs(recorded_inputs(state, events, load)[0], test.inputs)

    def resume(self, reference: str) -> int:
        """Continue an execution whose process ended."""
        from noetl.cli.status import progress_of
        from noetl.operations.embedded import resume

        async def running_execution(records: Records) -> tuple[str, Projection]:
            row = await queries.find_execution(records, reference)
            return row.execution_id, await progress_of(records, row.execution_id)

        execution_id, progress = read_at(self._place, running_execution)
        view = self._view(progress)
        resuming = resume(execution_id, db=self._db, watch=view, tools=self._tools())
        return self._wait_and_print(resuming, execution_id, view)

    async def _rerun_state(self, records: Records, net: Net, request: RerunRequest) -> RerunState | None:
        """The state in which the new run begins; None for a run from the start. The rules are those of a server."""
        from getpass import getuser

        from noetl.control.nested.reruns import failed_loops, only_failed_loop, state_at_step
        from noetl.engine.rerun_state import ApprovedInputs, Consent
        from noetl.events.envelope import with_stored_values
        from noetl.net.net import content_hash
        from noetl.operations.executions import event_pages

        row, step = request.row, request.step
        if step is None and request.failed_items:
            step = only_failed_loop(await failed_loops(records, row.execution_id), row.execution_id)
        if step is None:
            return None
        load = self._place.results().load
        events = [
            with_stored_values(event, load) async for page in event_pages(records, row.execution_id) for event in page
        ]
        now = ApprovedInputs(net_hash=content_hash(net), payload=request.inputs)
        consent = Consent(actor=request.actor or getuser(), roles=tuple(request.roles), approves=request.approve)
        return await state_at_step(records, row, step, events, net, now, consent, failed_items=request.failed_items)

    def _registered_net(self, path: str, version: str | None) -> Net | None:
        """The net of a playbook in the store's catalogue."""

        async def net_of(store: Store) -> Net | None:
            from noetl.net.net import from_json

            row = await store.catalog.find(path, version)
            return from_json(await store.net(row.net_hash)) if row is not None else None

        return self._looked_up(net_of)

    def _no_playbook(self, playbook: NamedPlaybook) -> Unreadable:
        name, version = playbook.name, playbook.version
        if version is not None:
            return Unreadable(f'{name}: no version "{version}" of such a playbook is registered in this store')
        if Path(name).is_dir():
            return folder_error(name)
        return Unreadable(
            f"{name}: there is no such file, and no playbook of this path is registered here{self._nearest_path(name)}"
        )

    def _nearest_path(self, path: str) -> str:
        """The advice for an unregistered path, as the end of an error message."""
        from noetl.operations.catalog import nearest_path_text

        return self._looked_up(lambda store: nearest_path_text(store.catalog, path)) or ""

    def _looked_up(self, look: Callable[[Store], Awaitable[Found]]) -> Found | None:
        """The result of `look` on the store; None if there is no store, since a query must not create one."""
        if self._db == MEMORY or not queries.is_there(self._db):
            return None

        async def run_query() -> Found:
            async with self._place.operations() as operations:
                return await look(operations.store)

        with queries.refusals():
            return asyncio.run(run_query())

    def _begin(
        self, net: Net, inputs: dict[str, Any], *, origin: Path | None = None, carried: RerunState | None = None
    ) -> int:
        """Run a net that was read from `origin`; with `carried`, begin at a step with the state of an earlier run."""
        from noetl.base.clock import SystemClock
        from noetl.base.ids import uuid7
        from noetl.events.projection.projection import Projection
        from noetl.operations.embedded import run_net

        # Choose the id here, so that an interruption can name the execution even before anything is stored.
        execution_id = uuid7(SystemClock().now())
        view = self._view(Projection())
        running = run_net(
            net,
            payload=inputs,
            db=self._db,
            execution_id=execution_id,
            watch=view,
            tools=self._tools(),
            origin=origin,
            carried=carried,
        )
        return self._wait_and_print(running, execution_id, view)

    def _tools(self) -> Registry:
        """The tools of this run. Refused if the command or the settings name an unknown kind."""
        from noetl.operations.embedded import tools_here

        with queries.refusals():
            return tools_here(*self._options.allowed)

    def _view(self, progress: Projection) -> LiveView | None:
        from noetl.cli.live import view_for

        return view_for(self._options.output, progress, quiet=self._options.quiet)

    def _wait_and_print(self, running: Coroutine[Any, Any, RunResult], execution_id: str, view: LiveView | None) -> int:
        """Wait for the run and print how it ended."""
        from noetl.base.errors import BackendError, RefusedError
        from noetl.cli.live import print_line, run_with_view
        from noetl.cli.watch import Interrupted, run_interruptibly

        # Before any task runs: code of a playbook could read the memory and environment of this process.
        protect()
        tune_collection()

        def stopping() -> None:
            text = "interrupted: recording what is done; once more stops at once"
            view.print_line(text) if view is not None else print_line(text)

        try:
            result = run_interruptibly(
                run_with_view(running, view),
                at_first=stopping,
                # Restores the cursor of the terminal.
                at_second=lambda: view.close() if view is not None else None,
                code=queries.INTERRUPTED,
            )
        except Interrupted:
            self._say_how_to_resume(execution_id)
            return queries.INTERRUPTED
        except (RefusedError, BackendError) as problem:
            click.echo(f"error: {problem}", err=True)
            if isinstance(problem, BackendError):
                self._say_how_to_resume(execution_id)
            return queries.REFUSED
        self._print(result)
        return queries.CODES[result.status.value]

    def _say_how_to_resume(self, execution_id: str) -> None:
        """Print the command to resume the run, unless it was stopped before anything was stored."""
        if self._db == MEMORY:
            click.echo(f"execution {execution_id} has not ended", err=True)
        elif self._has_begun(execution_id):
            click.echo(f"execution {execution_id} has not ended", err=True)
            click.echo(f"resume it with: {queries.resume_hint(self._db, execution_id)}", err=True)

    def _has_begun(self, execution_id: str) -> bool:
        import os

        from noetl.store.open_store import is_database

        if not is_database(self._db) and not os.access(queries.place_of(self._db), os.W_OK):
            # Even reading would create files beside the store, which cannot be written here.
            return False
        try:
            return read_at(self._place, lambda records: records.execution(execution_id)) is not None
        # The store cannot be read either; that error was reported already.
        except queries.QueryRefused:
            return False

    def _print(self, result: RunResult) -> None:
        if self._options.output == "jsonl":
            return
        if self._options.output == "json":
            from noetl.cli.report import as_objects

            click.echo(as_json({**msgspec.to_builtins(result), "diagnostics": as_objects(self._diagnostics)}))
            return
        if not self._options.quiet or not result.ok:
            _print_outcome(result)
        print_result(result.result)


def _print_outcome(result: RunResult) -> None:
    """How it ended, for people."""
    from noetl.cli.live import print_line
    from noetl.cli.live_text import WHOLE, detail_lines, error_line

    why = f": {error_line(result.error, WHOLE)}" if result.error is not None else ""
    print_line(styled_status(result.status.value) + why)
    for line in detail_lines(result.error) if result.error is not None else ():
        print_line(f"  {line}")
    print_line(f"execution {result.execution_id}, {result.events} events in {result.duration_s:.3f} s")
