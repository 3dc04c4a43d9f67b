"""`noetl watch`: follow an execution to its end. It is shown as it goes, its result printed, its ending an exit code.

Somebody else drives the execution, so whoever follows may let go at any time, and it goes on. `Interruption` is what
Ctrl-C does here and where this process drives the run itself.
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
from noetl.cli.connection import ask, find_execution_id, is_left_alone, place_meant, place_options
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations, Place
    from noetl.cli.live import LiveView
    from noetl.operations.api_shapes import ResultView

TIMED_OUT = queries.CANCELLED  # one code for both: it is not done, and not by its own fault (design.md §6)
SILENT_S = 3.0  # twice of it without an event, and whoever watches wants to know why


def follow_execution(
    place: Place,
    execution_id: str,
    *,
    output: str,
    quiet: bool,
    within_s: float | None = None,
    diagnostics: list[dict[str, Any]] | None = None,
) -> int:
    """Show an execution as it goes, print how it ended, and give the exit code. `diagnostics` are what the server found
    in the playbook, for output as JSON."""
    from noetl.cli.live import print_line, run_with_view, view_for
    from noetl.events.projection.projection import Projection

    view = view_for(output, Projection(), quiet=quiet)

    async def in_time() -> ResultView:
        async with asyncio.timeout(within_s), place.operations() as operations:
            return await run_with_view(_followed(operations, execution_id, view), view)

    try:
        with queries.refusals():
            result = run_interruptibly(
                in_time(),
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


async def _followed(operations: Operations, execution_id: str, view: LiveView | None) -> ResultView:
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
    """When nothing happens for a while, whoever watches is told what holds the execution, once for each reason: without
    a worker for its pool it would wait for ever, and no event says so."""

    def __init__(self, operations: Operations, execution_id: str, view: LiveView | None) -> None:
        self._operations, self._execution_id, self._view = operations, execution_id, view
        self._heard = True
        self._shown: set[str] = set()

    def end(self) -> None:
        self._heard = True

    async def explain(self) -> None:
        while self._view is not None:
            await asyncio.sleep(SILENT_S)
            if not self._heard:
                await self._ask(self._view)
            self._heard = False

    async def _ask(self, view: LiveView) -> None:
        try:
            found = await self._operations.explain(self._execution_id)
        except NoetlError:
            return  # the stream of events says what is wrong with the server
        for sentence in found["sentences"] if found["stuck"] else ():
            if sentence not in self._shown:
                self._shown.add(sentence)
                view.print_line(f"· {visible(sentence)}")


def _print(result: ResultView, output: str, quiet: bool, diagnostics: list[dict[str, Any]] | None) -> None:
    from noetl.cli.live import print_line

    if output == "jsonl":
        return
    if output == "json":
        found = {} if diagnostics is None else {"diagnostics": diagnostics}
        click.echo(queries.as_json({**msgspec.to_builtins(result), **found}))
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
    """On standard output: text as it is, everything else as JSON."""
    if result is not None:
        click.echo(result if isinstance(result, str) else queries.as_json(result))


def _error_suffix(error: dict[str, Any] | None) -> str:
    from noetl.cli.live_text import WHOLE, clipped

    return ": " + clipped(f"{error.get('kind')}: {error.get('message')}", WHOLE) if error else ""


def _error_details(error: dict[str, Any] | None) -> list[str]:
    from noetl.cli.live_text import detail_lines
    from noetl.events.outcomes import Error

    return detail_lines(msgspec.convert(error, Error)) if error else []


def _duration(_: click.Context, __: click.Parameter, given: str | None) -> float | None:
    from noetl.base.durations import seconds

    try:
        return seconds(given) if given is not None else None
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
def command(ctx: click.Context, given: str, timeout: float | None, output: str, quiet: bool, db: str | None) -> None:
    """Follow an execution until it ends, and print its result, as `noetl run` does.

    Exit codes: 0 completed, 1 failed, 5 cancelled or timed out, 130 interrupted. After a timeout or an interruption the
    execution goes on.

    \b
    noetl watch last --timeout 10m && echo done
    """

    execution_id = ask(db, lambda operations: _moving_execution(operations, given, db))
    place = place_meant(db)
    ctx.exit(follow_execution(place, execution_id, output=output, quiet=quiet, within_s=timeout))


async def _moving_execution(operations: Operations, given: str, db: str | None) -> str:
    """The execution that is meant. Refused when it would never move."""
    execution_id = await find_execution_id(operations, given)
    if await is_left_alone(operations, execution_id):
        raise queries.QueryRefused(
            f"nobody runs {execution_id} now; take it up with: {queries.resume_hint(db, execution_id)}"
        )
    return execution_id


# Interruption: the first Ctrl-C (or SIGTERM) lets a run record what it has and end; the second stops it at once.
#
# Stopping at once loses nothing that was recorded: the store commits whole decisions, and a resumed run goes on
# from the last of them.

Given = TypeVar("Given")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):  # noqa: N818  it is the user's wish, not an error
    """The run was stopped before its end, and what it had done is recorded."""


def run_interruptibly(
    running: Coroutine[Any, Any, Given], *, at_first: Callable[[], None], at_second: Callable[[], None], code: int
) -> Given:
    """What the coroutine gives. `at_first` is called on the first signal, `at_second` before the second ends the
    process with `code`.

    Interrupted when there was a signal and the coroutine has come to rest.
    """

    async def guarded() -> Given:
        task = asyncio.current_task()
        assert task is not None
        heard = 0

        def on_signal() -> None:
            nonlocal heard
            heard += 1
            if heard > 1:
                try:
                    at_second()
                finally:
                    # At once, without cleaning up: the second Ctrl-C means that cleaning up hangs. Nothing recorded is
                    # lost by it.
                    os._exit(code)
            at_first()
            task.cancel()

        with _hearing(on_signal):
            try:
                return await running
            except asyncio.CancelledError:
                if heard:
                    raise Interrupted from None
                raise

    return asyncio.run(guarded())


@contextmanager
def _hearing(hear: Callable[[], None]) -> Iterator[None]:
    """Signals reach `hear` meanwhile; where the loop cannot have them, Python's own Ctrl-C stays."""
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
