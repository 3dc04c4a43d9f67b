"""Live views of a run: a screen on a terminal, lines elsewhere, nothing for programs.

Everything here goes to standard error; standard output is for the result of the run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TextIO, TypeVar

import click

from noetl.events.envelope import Event
from noetl.events.projection.projection import Projection

Given = TypeVar("Given")


class LiveView(Protocol):
    """Receives events when they are committed. `tick` is called every `period_s`, for progress without events."""

    period_s: float

    def __call__(self, events: Sequence[Event]) -> None: ...

    def tick(self) -> None: ...

    def print_line(self, text: str) -> None:
        """One line about the run itself."""

    def close(self) -> None: ...


def is_for_people(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether the stream is an interactive terminal: not a build log, not a dumb terminal."""
    if environment.get("CI", "").lower() not in ("", "0", "false") or environment.get("TERM") == "dumb":
        return False
    # Older encodings lack the signs and bars of the screen; printing one would raise an error.
    if not (stream.encoding or "").lower().startswith("utf"):
        return False
    return stream.isatty()


def view_for(output: str, progress: Projection, *, quiet: bool = False) -> LiveView | None:
    """The view for the kind of standard error; `progress` is the earlier progress of a resumed run."""
    if output == "jsonl":
        return _Events()
    if quiet:
        return None
    if is_for_people(sys.stderr, os.environ):
        return _screen(progress)
    if output == "json":
        return None
    from noetl.cli.live_lines import Lines

    return Lines(print_line, paint=click.style, progress=progress)


def print_line(line: str) -> None:
    """Print a line on standard error. If its reader is gone (`2>&1 | head`), the run continues, and later lines are
    discarded."""
    try:
        click.echo(line, err=True)
    except OSError:
        with suppress(OSError):
            # The reader is gone: point standard error to the null device, so that no later write fails.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stderr.fileno())
            os.close(nowhere)


def _screen(progress: Projection) -> LiveView:
    from rich.console import Console

    from noetl.cli.live_screen import Screen

    color = getattr(click.get_current_context(silent=True), "color", None)
    console = Console(stderr=True, no_color=color is False or None, highlight=False, markup=False, emoji=False)
    return Screen(console, progress=progress)


class _Events:
    """Every event as one line of JSON on standard output."""

    period_s = 60.0

    def __call__(self, events: Sequence[Event]) -> None:
        import msgspec

        from noetl.events.envelope import readable

        for event in events:
            click.echo(msgspec.json.encode(readable(event)))

    def tick(self) -> None:
        """Nothing to do: every event is printed."""

    def print_line(self, text: str) -> None:
        print_line(text)

    def close(self) -> None:
        """Nothing is held open."""


async def run_with_view(running: Awaitable[Given], view: LiveView | None) -> Given:
    """Wait for the run, with its view kept alive meanwhile."""
    if view is None:
        return await running
    ticking = asyncio.ensure_future(_ticking(view))
    try:
        return await running
    finally:
        ticking.cancel()
        # `wait` does not raise: an error while drawing must not fail the run.
        await asyncio.wait({ticking})
        view.close()


async def _ticking(view: LiveView) -> None:
    while True:
        view.tick()
        await asyncio.sleep(view.period_s)
