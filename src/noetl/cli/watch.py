"""`noetl watch`: follow an execution until it ends, print its result, and exit with a code for its status.

Another process drives the execution, so it continues when the user stops watching. `run_interruptibly` handles Ctrl-C
here and in embedded runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from noetl.base.errors import NoetlError
from noetl.cli import queries
from noetl.cli.connection import ask, find_execution_id, is_abandoned_run, place_meant, place_options
from noetl.cli.terminal import as_json, color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations, Place
    from noetl.cli.live import LiveView
    from noetl.operations.api_shapes import ResultView

# One code for both: not completed, but not failed either (design.md §6).
TIMED_OUT = queries.CANCELLED
# After at most twice this time without an event, the reason is printed.
SILENT_S = 3.0


def follow_execution(
    place: Place,
    execution_id: str,
    *,
    output: str,
    quiet: bool,
    within_s: float | None = None,
    diagnostics: list[dict[str, Any]] | None = None,
) -> int:
    """Show the progress of an execution, print its result, and return the exit code. `diagnostics` are those of the
    playbook, for JSON output."""
    from noetl.cli.live import print_line, run_with_view, view_for
    from noetl.events.projection.projection import Projection

    view = view_for(output, Projection(), quiet=quiet)

    async def in_time() -> ResultView:
        async with asyncio.timeout(within_s), place.operations() as operations:
            return await run_with_view(_follow(operations, execution_id, view), view)

    try:
        with queries.refusals():
            result = run_interruptibly(
                in_time(),
                # Another process drives it: there is nothing to record, and one Ctrl-C is enough.
                at_first=lambda: None,
                at_second=lambda: view.close() if view is not None else None,
                code=queries.INTERRUPTED,
            )
    except (Interrupted, TimeoutError) as stopped:
        for line in place.way_back(execution_id):
            print_line(line)
        return queries.INTERRUPTED if isinstance(stopped, Interrupted) else TIMED_OUT
    _print(result, output, quiet, diagnostics)
    return queries.CODES[result.status]


async def _follow(operations: Operations, execution_id: str, view: LiveView | None) -> ResultView:
    silence = _Silence(operations, execution_id, view)
    explaining = asyncio.ensure_future(silence.explain())
    try:
        async for event in operations.events(execution_id, follow=True):
            silence.end()
            if view is not None:
                view([event])
    finally:
        explaining.cancel()
        with suppress(asyncio.CancelledError):
            await explaining
    return await operations.result(execution_id)


class _Silence:
    """Prints what the execution waits for if there are no events for a while, once for each reason. Without a worker
    for its pool it would wait forever, and no event says so."""

    def __init__(self, operations: Operations, execution_id: str, view: LiveView | None) -> None:
        self._operations, self._execution_id, self._view = operations, execution_id, view
        self._heard = True
        self._shown: set[str] = set()

    def end(self) -> None:
        self._heard = True

    async def explain(self) -> None:
        while self._view is not None:
            await asyncio.sleep(SILENT_S)
            # No event since the last check, so it has been silent for SILENT_S to twice SILENT_S.
            if not self._heard:
                await self._ask(self._view)
            self._heard = False

    async def _ask(self, view: LiveView) -> None:
        try:
            explanation = await self._operations.explain(self._execution_id)
        except NoetlError:
            # The stream of events reports errors of the server.
            return
        sentences = list(explanation["sentences"]) if explanation["stuck"] else []
        if explanation["status"] == "paused":
            sentences.append(f"noetl resume {self._execution_id} lets it go on")
        for sentence in sentences:
            if sentence not in self._shown:
                self._shown.add(sentence)
                view.print_line(f"· {visible(sentence)}")


def _print(result: ResultView, output: str, quiet: bool, diagnostics: list[dict[str, Any]] | None) -> None:
    from noetl.cli.live import print_line

    if output == "jsonl":
        return
    if output == "json":
        extra = {} if diagnostics is None else {"diagnostics": diagnostics}
        click.echo(as_json({**msgspec.to_builtins(result), **extra}))
        return
    if not quiet or not result.ok:
        print_line(styled_status(result.status) + _error_suffix(result.error))
        for line in _error_details(result.error):
            print_line(f"  {line}")
        print_line(f"execution {result.execution_id}")
    print_result(result.result)


def styled_status(status: str) -> str:
    return click.style(status, fg={"completed": "green", "failed": "red"}.get(status, "yellow"), bold=True)


def print_result(result: Any) -> None:
    """Print a result on standard output: text as it is, everything else as JSON."""
    if result is not None:
        click.echo(result if isinstance(result, str) else as_json(result))


def _error_suffix(error: dict[str, Any] | None) -> str:
    from noetl.cli.live_text import WHOLE, clipped

    return ": " + clipped(f"{error.get('kind')}: {error.get('message')}", WHOLE) if error else ""


def _error_details(error: dict[str, Any] | None) -> list[str]:
    from noetl.cli.live_text import detail_lines
    from noetl.events.outcomes import Error

    return detail_lines(msgspec.convert(error, Error)) if error else []


def _duration(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    from noetl.base.durations import seconds

    try:
        return seconds(text) if text is not None else None
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.command("watch", epilog=queries.ID_HELP)
@queries.id_argument
@click.option(
    "--timeout",
    callback=_duration,
    metavar="DURATION",
    help="Stop watching after this long, such as 10m; the execution goes on.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="Output format.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
@place_options
@color_option
@click.pass_context
def command(
    ctx: click.Context, reference: str, timeout: float | None, output: str, quiet: bool, db: str | None
) -> None:
    """Follow an execution until it ends, and print its result, as `noetl run` does.

    Exit codes: 0 completed, 1 failed, 5 cancelled or timed out, 130 interrupted. After a timeout or an interruption the
    execution goes on.

    \b
    noetl watch last --timeout 10m && echo done
    """

    execution_id = ask(db, lambda operations: _moving_execution(operations, reference, db))
    place = place_meant(db)
    ctx.exit(follow_execution(place, execution_id, output=output, quiet=quiet, within_s=timeout))


async def _moving_execution(operations: Operations, reference: str, db: str | None) -> str:
    """The id of the execution that `reference` means. Refused if no process drives it."""
    execution_id = await find_execution_id(operations, reference)
    if await is_abandoned_run(operations, execution_id):
        raise queries.QueryRefused(
            f"no process runs {execution_id} now; resume it with: {queries.resume_hint(db, execution_id)}"
        )
    return execution_id


# Interruption: after the first Ctrl-C (or SIGTERM) a run records its progress and ends; the second stops it at once.
#
# Stopping at once loses nothing that was recorded: the store commits whole decisions, and a resumed run continues from
# the last of them.

Given = TypeVar("Given")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):  # noqa: N818  it is the user's wish, not an error
    """The run was stopped before its end, and what it had done is recorded."""


def run_interruptibly(
    running: Coroutine[Any, Any, Given], *, at_first: Callable[[], None], at_second: Callable[[], None], code: int
) -> Given:
    """Run a coroutine and return its result. `at_first` is called on the first signal, `at_second` before the second
    one ends the process with `code`.

    Interrupted if there was a signal and the coroutine has ended.
    """

    async def guarded() -> Given:
        task = asyncio.current_task()
        assert task is not None
        received = 0

        def on_signal() -> None:
            nonlocal received
            received += 1
            if received > 1:
                try:
                    at_second()
                finally:
                    # Exit without cleanup: a second Ctrl-C means that the cleanup hangs. Nothing recorded is lost.
                    os._exit(code)
            at_first()
            task.cancel()

        with _handling_signals(on_signal):
            try:
                return await running
            except asyncio.CancelledError:
                if received:
                    raise Interrupted from None
                raise

    return asyncio.run(guarded())


@contextmanager
def _handling_signals(hear: Callable[[], None]) -> Iterator[None]:
    """Call `hear` for signals during the block; where the loop does not support that, Python's own Ctrl-C handling
    stays."""
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError, ValueError, RuntimeError):
        for number in _SIGNALS:
            loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        with suppress(NotImplementedError, ValueError, RuntimeError):
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
