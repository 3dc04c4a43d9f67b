"""Runs of playbooks, where a server and a store must differ: who drives the execution.

A server drives what it is asked to start. The command only follows it, and Ctrl-C lets go of a run that goes on. On a
store there is nobody: this very process drives the execution (`cli/embedded_runs.py`). There, starting and following
are one act, Ctrl-C has to record what is done, and what tools may do is for this command to say. `Runs` is the contract
of both; everything else that people ask for goes through `ask` and `read` of `cli/connection.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from noetl.cli.files import STDIN, accepted, read_source
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
    """What is to be run: a file with its text checked, or else the path of a playbook in the catalogue."""

    name: str
    version: str | None = None
    checked: Checked | None = None


class StepTest(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a file that is run alone, with `inputs`, over those that it read in the execution `like`."""

    step: str
    inputs: StepTestInputs
    like: str | None = None


class RerunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that is run again, and what is to be different. Without `step` it begins at the start, or with
    `failed_items` at the step whose loop has failed items."""

    row: ExecutionRow
    inputs: dict[str, Any]
    step: str | None = None
    version: str | None = None
    failed_items: bool = False
    approve: bool = False
    actor: str | None = None
    roles: Sequence[str] = ()


class Runs(Protocol):
    """Each call runs to the end and gives the exit code. UsageError for an option that makes no sense at this place."""

    def run(self, playbook: NamedPlaybook, inputs: dict[str, Any]) -> int: ...

    def rerun(self, again: RerunRequest) -> int: ...

    def test_step(self, playbook: NamedPlaybook, test: StepTest) -> int: ...


def is_file(name: str) -> bool:
    """Whether a name means a file. A folder does not: a playbook may have the path of one."""
    return name == STDIN or (Path(name).exists() and not Path(name).is_dir())


def named_playbook(name: str, version: str | None, *, strict: bool, migrates: bool) -> NamedPlaybook | None:
    """The playbook of this name; None when its text is refused, which is reported then."""
    if not is_file(name):
        return NamedPlaybook(name, version)
    if version is not None:
        raise click.UsageError("--version chooses among registered playbooks, and this is a file")
    checked = accepted(read_source(name), strict=strict, migrates=migrates)
    return NamedPlaybook(name, checked=checked) if checked is not None else None


class ServerRuns:
    """Runs on a server: register, start, follow."""

    def __init__(self, place: ServerPlace, options: RunOptions) -> None:
        self._place, self._options = place, options
        if given := options.allowed.used_options():
            raise click.UsageError(
                f"{' and '.join(given)}: for runs here; what tools may do for {place.url} is said where its "
                "workers are started (noetl worker start)"
            )

    def run(self, playbook: NamedPlaybook, inputs: dict[str, Any]) -> int:
        """A file is registered first, without its schedule: running it once must not start it again every night."""
        with refusals(), self._place.client() as client:
            if playbook.checked is None:
                started = client.start(playbook.name, inputs, version=playbook.version)
            else:
                registered = client.register(playbook.checked, schedule=False)
                # By the version just registered: another one may be registered in between.
                started = client.start(registered.path, inputs, version=registered.version)
        if playbook.checked is None:
            _print_warnings(started)
        elif playbook.checked.net is not None and playbook.checked.net.trigger is not None:
            self._print_schedule_is_left(registered)
        return self._followed(started, diagnostics=started.diagnostics)

    def rerun(self, again: RerunRequest) -> int:
        if again.actor is not None or again.roles:
            raise click.UsageError("on a server you are who your token says: leave --as and --role out")
        with refusals(), self._place.client() as client:
            started = client.rerun(
                again.row.execution_id,
                version=again.version,
                payload=again.inputs,
                from_step=again.step,
                approve=again.approve,
                failed_items=again.failed_items,
            )
        return self._followed(started)

    def test_step(self, playbook: NamedPlaybook, test: StepTest) -> int:
        from noetl.cli.connection import read_at
        from noetl.operations.step_tests import merged_inputs

        assert playbook.checked is not None, "the command takes files only"
        inputs, given, like = test.inputs, test.like, None
        if given is not None:
            like = read_at(self._place, lambda records: find_execution(records, given)).execution_id
        with refusals(), self._place.client() as client:
            if like is not None:
                inputs = merged_inputs(client.step_inputs(like, test.step).inputs, inputs)
            started = client.test_step(playbook.checked.source.text, test.step, inputs, execution_id=like)
        return self._followed(started, diagnostics=started.diagnostics)

    def _followed(self, started: StartedExecution, diagnostics: list[dict[str, Any]] | None = None) -> int:
        from noetl.cli.watch import follow_execution

        options = self._options
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
    """What the server says about the playbook that it runs; a local file has been shown with its lines already."""
    for found in started.diagnostics:
        place = f"{visible(started.catalog_id or started.path)}:{found.get('line')}:{found.get('column')}"
        click.echo(
            f"{place}: {found.get('severity')}[{found.get('code')}]: {visible(str(found.get('message')))}", err=True
        )
