"""Watching an execution to its end: shown as it goes, its result printed, its ending as an exit code.

Whoever watches may let go at any time; the execution is driven by somebody else and goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click
import msgspec

from noetl.cli.queries import CANCELLED, CODES, INTERRUPTED, refusals

if TYPE_CHECKING:
    from noetl.cli.live import LiveView
    from noetl.operations.api_shapes import ResultView

TIMED_OUT = CANCELLED  # one code for both: it is not done, and not by its own fault (design.md §6)


def watched(
    watch: Callable[[LiveView | None], Coroutine[Any, Any, ResultView]],
    *,
    output: str,
    quiet: bool,
    let_go: Callable[[], None],
    within_s: float | None = None,
    diagnostics: list[dict[str, Any]] | None = None,
) -> int:
    """`watch` feeds the view and gives the result; `let_go` says how to come back. `diagnostics` are what the server
    found in the playbook, for output as JSON."""
    from noetl.cli.interruption import Interrupted, run_interruptibly
    from noetl.cli.live import run_with_view, view_for
    from noetl.events.projection.projection import Projection

    view = view_for(output, Projection(), quiet=quiet)

    async def in_time() -> ResultView:
        async with asyncio.timeout(within_s):
            return await run_with_view(watch(view), view)

    try:
        with refusals():
            result = run_interruptibly(
                in_time(),
                at_first=lambda: None,
                at_second=lambda: view.close() if view is not None else None,
                code=INTERRUPTED,
            )
    except Interrupted:
        let_go()
        return INTERRUPTED
    except TimeoutError:
        let_go()
        return TIMED_OUT
    _print(result, output, quiet, diagnostics)
    return CODES[result.status]


def _print(result: ResultView, output: str, quiet: bool, diagnostics: list[dict[str, Any]] | None) -> None:
    from noetl.cli.live import print_line
    from noetl.cli.queries import as_json

    if output == "jsonl":
        return
    if output == "json":
        told = {} if diagnostics is None else {"diagnostics": diagnostics}
        click.echo(as_json({**msgspec.to_builtins(result), **told}))
        return
    if not quiet or not result.ok:
        color = {"completed": "green", "failed": "red"}.get(result.status, "yellow")
        print_line(click.style(result.status, fg=color, bold=True) + _error_suffix(result.error))
        print_line(f"execution {result.execution_id}")
    if isinstance(result.result, str):
        click.echo(result.result)
    elif result.result is not None:
        click.echo(as_json(result.result))


def _error_suffix(error: dict[str, Any] | None) -> str:
    from noetl.cli.live_text import WHOLE, clipped

    return ": " + clipped(f"{error.get('kind')}: {error.get('message')}", WHOLE) if error else ""
