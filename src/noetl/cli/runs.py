"""Runs of playbooks: the one thing in which a server and a store must differ, because they are driven differently.

A server drives the executions it starts. The command only follows one, and Ctrl-C stops following while the run goes
on. On a store, this process itself drives the execution (`cli/embedded_runs.py`): starting and following are one call,
Ctrl-C has to record what is done, and the options of the command decide what tools may do. `Runs` is the contract of
both; everything else goes through `ask` and `read` of `cli/connection.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from noetl.cli.files import STDIN, check_or_report, read_source
from noetl.cli.queries import find_execution, refusals
from noetl.cli.terminal import visible
from noetl.operations.attempt_shapes import StepTestInputs

if TYPE_CHECKING:
    from noetl.cli.connection import ServerPlace
    from noetl.cli.run import RunOptions
    from noetl.language.checking import Checked
    from noetl.operations.api_shapes import PlaybookInfo, StartedExecution
    from noetl.store.contract import ExecutionRow


class NamedPlaybook(msgspec.Struct, frozen=True):
    """The playbook to run: a file with its checked text, or the path of a playbook in the catalogue."""

    name: str
    # a number or a label; None: the newest
    version: str | None = None
    checked: Checked | None = None


class StepTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test of one step of a file, with `inputs` over those that it read in the execution `like`."""

    step: str
    inputs: StepTestInputs
    like: str | None = None


class RerunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An execution to run again, with changes. Without `step` it begins at the start, or with `failed_items` at the
    step whose loop has failed items."""

    row: ExecutionRow
    inputs: dict[str, Any]
    step: str | None = None
    version: str | None = None
    failed_items: bool = False
    approve: bool = False
    actor: str | None = None
    roles: Sequence[str] = ()


class Runs(Protocol):
    """Each call runs to the end and returns the exit code. UsageError for an option that this place does not
    support."""

    def run(self, playbook: NamedPlaybook, inputs: dict[str, Any]) -> int: ...

    def rerun(self, request: RerunRequest) -> int: ...

    def test_step(self, playbook: NamedPlaybook, test: StepTest) -> int: ...


def is_file(name: str) -> bool:
    """Whether a name is a file. A folder does not count: the path of a playbook may be equal to that of a folder."""
    return name == STDIN or (Path(name).exists() and not Path(name).is_dir())


def named_playbook(name: str, version: str | None, *, strict: bool, migrates: bool) -> NamedPlaybook | None:
    """The playbook with this name; None for a file with errors, which are printed."""
    if not is_file(name):
        return NamedPlaybook(name, version)
    if version is not None:
        raise click.UsageError("--version chooses among registered playbooks, and this is a file")
    checked = check_or_report(read_source(name), strict=strict, migrates=migrates)
    return NamedPlaybook(name, checked=checked) if checked is not None else None


class ServerRuns:
    """Runs on a server: register, start, follow."""

    def __init__(self, place: ServerPlace, options: RunOptions) -> None:
        self._place, self._options = place, options
        if used := options.allowed.used_options():
            raise click.UsageError(
                f"{' and '.join(used)}: only for runs in this process; what tools may do for {place.url} is set where "
                "its workers are started (noetl worker start)"
            )

    def run(self, playbook: NamedPlaybook, inputs: dict[str, Any]) -> int:
        """Run a playbook. A file is registered first, without its schedule: a single run must not schedule it."""
        with refusals(), self._place.client() as client:
            if playbook.checked is None:
                started = client.start(playbook.name, inputs, version=playbook.version)
            else:
                registered = client.register(playbook.checked, schedule=False)
                # Start exactly the registered version: another one may be registered in between.
                started = client.start(registered.path, inputs, version=registered.version)
        if playbook.checked is None:
            _print_warnings(started)
        elif playbook.checked.net is not None and playbook.checked.net.trigger is not None:
            self._print_schedule_is_left(registered)
        return self._follow(started, diagnostics=started.diagnostics)

    def rerun(self, request: RerunRequest) -> int:
        if request.actor is not None or request.roles:
            raise click.UsageError("on a server your token determines who you are: leave --as and --role out")
        with refusals(), self._place.client() as client:
            started = client.rerun(
                request.row.execution_id,
                version=request.version,
                payload=request.inputs,
                from_step=request.step,
                approve=request.approve,
                failed_items=request.failed_items,
            )
        return self._follow(started)

    def test_step(self, playbook: NamedPlaybook, test: StepTest) -> int:
        from noetl.cli.connection import read_at
        from noetl.operations.step_tests import merged_inputs

        assert playbook.checked is not None, "the command takes files only"
        inputs, reference, like = test.inputs, test.like, None
        if reference is not None:
            like = read_at(self._place, lambda records: find_execution(records, reference)).execution_id
        with refusals(), self._place.client() as client:
            if like is not None:
                inputs = merged_inputs(client.step_inputs(like, test.step).inputs, inputs)
            started = client.test_step(playbook.checked.source.text, test.step, inputs, execution_id=like)
        return self._follow(started, diagnostics=started.diagnostics)

    def _follow(self, started: StartedExecution, diagnostics: list[dict[str, Any]] | None = None) -> int:
        from noetl.cli.watch import follow_execution

        options = self._options
        # Standard output has the id alone, for `id=$(noetl run … --detach)`.
        if options.detach:
            click.echo(started.execution_id)
            return 0
        return follow_execution(
            self._place, started.execution_id, output=options.output, quiet=options.quiet, diagnostics=diagnostics
        )

    def _print_schedule_is_left(self, registered: PlaybookInfo) -> None:
        from noetl.cli.live import print_line

        if not self._options.quiet:
            print_line(
                f"runs {visible(registered.path)} version {registered.version} once; its trigger is not set by this: "
                "noetl register does that"
            )


def _print_warnings(started: StartedExecution) -> None:
    """Print the diagnostics that the server returned; those of a local file were printed by its check already."""
    for diagnostic in started.diagnostics:
        place = f"{visible(started.catalog_id or started.path)}:{diagnostic.get('line')}:{diagnostic.get('column')}"
        code, message = f"{diagnostic.get('severity')}[{diagnostic.get('code')}]", str(diagnostic.get("message"))
        click.echo(f"{place}: {code}: {visible(message)}", err=True)
