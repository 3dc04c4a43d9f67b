"""Live views of a run: a screen on a terminal, lines elsewhere, nothing for programs.

Everything here goes to standard error; standard output is for the result of the run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TextIO, TypeVar

import click

from noetl.base.clock import Clock, SystemClock
from noetl.cli import live_text
from noetl.cli.terminal import Paint, as_json, plain, visible
from noetl.events import control
from noetl.events.envelope import Event
from noetl.events.executions import WorkflowStarted
from noetl.events.loops import IterationDone, IterationFailed, LoopDone, LoopStarted
from noetl.events.projection.projection import Projection
from noetl.events.projection.views import StepRunView
from noetl.events.steps import ReportRefused, StepDenied, StepDone, StepFailed, StepStarted
from noetl.events.tasks import TaskProcessed
from noetl.events.tokens import NextSelected, TokenClaimed, TokenDropped
from noetl.events.v2_case_positions import RetryStarted
from noetl.events.waits import HumanCreated, MessageAwaited, SignalAwaited, TimerScheduled

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
        from noetl.events.envelope import readable

        for event in events:
            click.echo(as_json(readable(event), indent=-1))

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


_STEP = 16  # columns of a step's name
# Build servers kill jobs that print nothing for minutes.
_HEARTBEAT_S = 30.0
_LOOP_S, _TENTHS = 5.0, 10
# Failed iterations of one loop that get a line each; the others are counted.
_FAILURES = 3
# Lines of one task's output.
_OUTPUT = 20


class _Loop:
    """When and at which tenth a loop last printed a line."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.tenth = 0
        self.failures = 0


class Lines:
    """Turns events into lines for `write`. `tick` adds progress and heartbeats."""

    period_s = 1.0

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        paint: Paint = plain,
        clock: Clock | None = None,
        progress: Projection | None = None,
    ) -> None:
        self._write, self._paint = write, paint
        self._clock = clock or SystemClock()
        self._progress = progress or Projection()
        self._loops: dict[str, _Loop] = {}
        self._spoken_at = self._clock.now()

    def __call__(self, events: Sequence[Event]) -> None:
        for event in events:
            view = self._progress.take(event)
            for line in self._lines(event, view):
                self._print_step(event.ts, self._progress.name(event), line)

    def tick(self) -> None:
        now = self._clock.now()
        for step_run_id, loop in self._loops.items():
            view = self._progress.steps.get(step_run_id)
            if view is not None and view.loop is not None and now - loop.at >= _LOOP_S:
                loop.at = now
                self._print_step(now, view.step, f"  {live_text.counted(view.loop, view.pipeline.retries)}")
        if now - self._spoken_at >= _HEARTBEAT_S:
            self._print_step(now, "", f"still {self._progress.status}: {live_text.at_work(self._progress, now)}")

    def print_line(self, text: str) -> None:
        self._write(text)

    def close(self) -> None:
        """Nothing is held open."""

    def _print_step(self, at: float, step: str, line: str) -> None:
        self._spoken_at = self._clock.now()
        began = self._progress.started_at
        elapsed = self._paint(f"{at - (at if began is None else began):8.3f}s", dim=True)
        self._write(f"{elapsed}  {live_text.named(step):{_STEP}}  {line}")

    def _lines(self, event: Event, view: StepRunView | None) -> Iterable[str]:
        payload = event.payload
        match payload:
            case IterationDone() | IterationFailed():
                yield from self._iteration(event, payload, view)
            case TaskProcessed():
                yield from self._task(payload) if not payload.path else ()
            case LoopStarted() if not payload.path:
                self._loops[event.step_run_id or ""] = _Loop(event.ts)
                yield f"▸ loop of {payload.total:,}"
            case LoopDone():
                self._loops.pop(event.step_run_id or "", None)
                yield (
                    self._paint("✓ done", fg="green")
                    + f", {payload.done:,} of {payload.total:,} iterations"
                    + (f", {payload.failed:,} failed" if payload.failed else "")
                )
            case StepDone():
                yield self._paint("✓ done", fg="green")
            case StepFailed():
                self._loops.pop(event.step_run_id or "", None)
                yield self._paint("✗ failed", fg="red") + f": {live_text.error_line(payload.error)}"
            case TimerScheduled() | MessageAwaited() | SignalAwaited() | HumanCreated():
                yield f"· waits {live_text.clipped(live_text.awaited(payload))}"
            case NextSelected():
                yield from self._route(payload)
            case RetryStarted() if not payload.path and payload.delay_s:
                yield f"  ↻ {live_text.named(payload.task)} again in {payload.delay_s:g} s (call {payload.count})"
            case _:
                yield from self._other_lines(event)

    def _other_lines(self, event: Event) -> Iterable[str]:
        payload = event.payload
        match payload:
            case WorkflowStarted():
                yield f"▸ started at {live_text.named(payload.entry)}"
            case StepStarted() if not event.on_behalf and payload.worker_id != "server":
                yield "▸ started"
            case TokenClaimed() if payload.lease_epoch > 1:
                yield f"▸ taken up again (lease {payload.lease_epoch})"
            case StepDenied():
                yield self._paint("- denied", fg="yellow")
            case TokenDropped() if payload.error is not None:
                yield self._paint("✗ dropped", fg="red") + f": {live_text.error_line(payload.error)}"
            case control.JoinFilled():
                yield f"▸ joined {len(payload.tokens)} tokens"
            case control.JoinUnfilled():
                yield self._paint("✗ join not filled", fg="red") + f": {live_text.error_line(payload.error)}"
            case ReportRefused():
                yield self._paint(f"- late report refused ({payload.reason})", fg="yellow")
            case control.PlaybookPaused() | control.PlaybookResumed() | control.PlaybookCancelled():
                yield self._paint(f"- {payload.event_type.partition('.')[2]}", fg="yellow") + (
                    f": {visible(payload.reason)}" if payload.reason else ""
                )
            case control.LimitChanged():
                yield self._paint(f"- {live_text.limit_words(payload)}", fg="yellow")
            case _ if (side_run := live_text.side_run_line(payload)) is not None:
                yield self._paint(side_run[0], fg=side_run[1]) if side_run[1] is not None else side_run[0]

    def _iteration(
        self, event: Event, payload: IterationDone | IterationFailed, view: StepRunView | None
    ) -> Iterable[str]:
        loop = self._loops.get(event.step_run_id or "")
        # In nested loops only the innermost iterations are counted; the outer ones end with them.
        if loop is None or view is None or view.loop is None or len(payload.path) != len(view.loop.levels):
            return
        if isinstance(payload, IterationFailed):
            loop.failures += 1
            if loop.failures <= _FAILURES:
                where = ".".join(map(str, payload.path))
                yield "  " + self._paint(f"✗ iteration {where}", fg="red") + f": {live_text.error_line(payload.error)}"
        level = view.loop.level
        tenth = _TENTHS * level.ended // level.total
        if level.ended == level.total:
            # The end has a line of its own.
            return
        if tenth > loop.tenth and level.total >= _TENTHS:
            loop.tenth, loop.at = tenth, event.ts
            yield f"  {live_text.counted(view.loop, view.pipeline.retries)}"

    def _task(self, processed: TaskProcessed) -> Iterable[str]:
        name, outcome, decision = live_text.named(processed.task), processed.outcome, processed.decision
        yield from (f"  │ {line}" for line in output_lines(outcome.meta.stdout, most=_OUTPUT))
        if outcome.error is None:
            line = f"  {self._paint('✓', fg='green')} {name} ok, {outcome.meta.duration_ms:.0f} ms"
        else:
            line = "  " + self._paint(f"✗ {name}", fg="red") + f": {live_text.error_line(outcome.error)}"
        if decision.do == "retry":
            line += f"; again in {decision.delay_s:g} s (attempt {processed.attempt + 1})"
        elif decision.do == "jump":
            line += f"; jump to {live_text.named(decision.next or '')}"
        elif outcome.error is not None and decision.error is None:
            line += f"; {decision.do}, policy {decision.rule}"
        yield line

    def _route(self, selected: NextSelected) -> Iterable[str]:
        fired = [live_text.named(arc.step) for arc in selected.arcs if arc.fired]
        if fired:
            yield f"→ {', '.join(fired)}"
        elif selected.ended == "tolerated":
            yield self._paint("- failure tolerated (best effort)", fg="yellow")


def output_lines(stdout: str | None, *, most: int) -> list[str]:
    """The first lines of a task's output, safe to print, and the number of further lines."""
    if not stdout:
        return []
    lines = stdout.rstrip("\n").split("\n")
    shown = [live_text.printed(line) for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"… {len(lines) - most:,} more lines, see noetl logs")
    return shown
