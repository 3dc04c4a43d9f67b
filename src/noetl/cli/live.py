"""Live: who is shown what of a run. A screen on a terminal, lines elsewhere, nothing for programs (DEPENDENCIES §6).

Everything here goes to standard error; standard output is for what the run gives.
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
    """Hears of events as they are committed, and is called now and then for what no event says."""

    period_s: float

    def __call__(self, events: Sequence[Event]) -> None: ...

    def tick(self) -> None: ...

    def print_line(self, text: str) -> None:
        """One line about the run itself."""

    def close(self) -> None: ...


def is_for_people(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether the stream is a terminal that somebody looks at: not a build log, not a dumb one."""
    if environment.get("CI", "").lower() not in ("", "0", "false") or environment.get("TERM") == "dumb":
        return False
    if not (stream.encoding or "").lower().startswith("utf"):
        return False
    return stream.isatty()


def view_for(output: str, progress: Projection, *, quiet: bool = False) -> LiveView | None:
    """The view that suits where standard error goes; `progress` is what is known already, of a resumed run."""
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
    """A line for people. That nobody reads it any more (`2>&1 | head`) is no reason to stop a run, nor to end it with
    an error: what is left in the buffer goes nowhere from then on."""
    try:
        click.echo(line, err=True)
    except OSError:
        with suppress(OSError):
            # The reader of standard error is gone: the run goes on, and nothing writes to the broken pipe again.
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
        """Events say it all."""

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
        await asyncio.wait({ticking})  # should drawing have failed, the run has not
        view.close()


async def _ticking(view: LiveView) -> None:
    while True:
        view.tick()
        await asyncio.sleep(view.period_s)
