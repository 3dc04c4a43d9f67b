"""The screen of a run on a terminal: finished steps scroll up and stay; running steps are redrawn below them.

It is drawn ten times a second, however many events there are, from counts and never from single iterations. So ten
thousand iterations neither flicker nor cost more than ten. This is the only module of a run that imports rich.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from noetl.base.clock import Clock, SystemClock
from noetl.cli import live_text
from noetl.cli.live import output_lines
from noetl.cli.terminal import visible
from noetl.events.control import JoinUnfilled, LimitChanged, PlaybookCancelled, PlaybookPaused, PlaybookResumed
from noetl.events.envelope import Event
from noetl.events.loops import LoopDone, LoopLevel
from noetl.events.projection.projection import Projection
from noetl.events.projection.views import StepRunView
from noetl.events.steps import StepDenied, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.tokens import NextSelected, TokenDropped

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BAR = 24
# Columns that the words of a loop take.
_BESIDE_BAR = 82
_NAME = 16
# Lines of output that loops leave below their bar.
_LOGS = 4
# Lines of one task's output that scroll up with its step.
_KEPT = 12


class Screen:
    """Draws on `console`. `tick` draws; events only change what will be drawn."""

    period_s = 0.1

    def __init__(self, console: Console, *, clock: Clock | None = None, progress: Projection | None = None) -> None:
        self._console = console
        self._clock = clock or SystemClock()
        self._progress = progress or Projection()
        # Lines that scroll up with the next frame.
        self._over: list[Text] = []
        # Steps that have ended and not been routed yet.
        self._ended: dict[str, Text] = {}
        self._logs: deque[str] = deque(maxlen=_LOGS)
        self._frames = 0
        self._live = Live(
            # No refresh thread: `tick` draws the frames, on the event loop that also delivers events.
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        )
        self._live.start()

    def __call__(self, events: Sequence[Event]) -> None:
        for event in events:
            self._take(event, self._progress.take(event))

    def tick(self) -> None:
        self._frames += 1
        self._scroll()
        self._live.update(self._frame(self._clock.now()), refresh=True)

    def print_line(self, text: str) -> None:
        self._over.append(Text(text, "yellow"))
        self.tick()

    def close(self) -> None:
        """Keep finished lines, remove the drawn part, and restore the cursor."""
        self._over += self._ended.values()
        self._ended.clear()
        self._live.update(Text(), refresh=True)
        self._scroll()
        self._live.stop()

    def _scroll(self) -> None:
        """Print all finished lines at once: each print redraws the part below."""
        if self._over:
            lines, self._over = self._over, []
            self._console.print(Group(*lines))

    # what scrolls up

    def _take(self, event: Event, view: StepRunView | None) -> None:
        payload = event.payload
        match payload:
            case TaskProcessed():
                self._task(event, payload)
            case StepDone() | StepFailed() | LoopDone():
                # Wait until the arcs have fired, so that one line says how the step ended and where it leads.
                if view is not None:
                    self._ended[event.step_run_id or ""] = _ended(event, payload, view)
            case NextSelected():
                self._routed(event, payload)
            case StepDenied():
                self._over.append(_line("- ", "yellow", self._progress.name(event), "denied"))
            case TokenDropped() if payload.error is not None:
                self._over.append(
                    _line("✗ ", "red", self._progress.name(event), f"dropped: {live_text.error_line(payload.error)}")
                )
            case JoinUnfilled():
                self._over.append(
                    _line(
                        "✗ ",
                        "red",
                        self._progress.name(event),
                        f"join not filled: {live_text.error_line(payload.error)}",
                    )
                )
            case PlaybookPaused() | PlaybookResumed() | PlaybookCancelled():
                word = payload.event_type.partition(".")[2]
                why = f": {visible(payload.reason)}" if payload.reason else ""
                self._over.append(_line("- ", "yellow", None, f"{word}{why}"))
            case LimitChanged():
                self._over.append(_line("- ", "yellow", self._progress.name(event), live_text.limit_words(payload)))
            case _ if (side_run := live_text.side_run_line(payload)) is not None:
                sign, _, words = side_run[0].partition(" ")
                self._over.append(_line(f"{sign} ", side_run[1] or "cyan", self._progress.name(event), words))

    def _task(self, event: Event, processed: TaskProcessed) -> None:
        outcome = processed.outcome
        if not outcome.meta.stdout:
            return
        if processed.path:
            where = ".".join(map(str, processed.path))
            lines = outcome.meta.stdout.rstrip("\n").split("\n")[-_LOGS:]
            name = live_text.named(self._progress.name(event))
            self._logs.extend(f"{name}[{where}] │ {live_text.printed(line)}" for line in lines)
            return
        name = live_text.named(self._progress.name(event))
        for line in output_lines(outcome.meta.stdout, most=_KEPT):
            shown = Text.assemble((f"  {name:{_NAME}}  │ ", "dim"), line)
            shown.truncate(self._console.width - 1, overflow="ellipsis")  # `noetl logs` has the rest
            self._over.append(shown)

    def _routed(self, event: Event, selected: NextSelected) -> None:
        line = self._ended.pop(event.step_run_id or "", None)
        if line is None:
            return
        fired = [live_text.named(arc.step) for arc in selected.arcs if arc.fired]
        if fired:
            line.append(f"  → {', '.join(fired)}", "dim")
        elif selected.ended == "tolerated":
            line.append("  failure tolerated (best effort)", "yellow")
        self._over.append(line)

    # what is drawn

    def _frame(self, now: float) -> Group:
        width, height = self._console.size
        lines = [line for view in self._progress.steps.values() for line in self._step(view, now, width)]
        lines += [
            _line("· ", "yellow", held.step, f"{live_text.waiting(held)}  {live_text.lasted(now - held.since)}")
            for held in self._progress.held.values()
        ]
        lines += [
            _line(
                "↶ ",
                "cyan",
                view.step,
                f"{live_text.side_run_words(view, now)}  {live_text.lasted(view.elapsed_s(now))}",
            )
            for view in self._progress.side_runs.values()
        ]
        lines += [Text.assemble(("    " + log, "dim")) for log in self._logs]
        # A frame higher than the terminal would scroll, and the scrolled part could not be redrawn.
        room = max(1, height - 3)
        if len(lines) > room:
            hidden = len(lines) - room + 1
            lines = [*lines[: room - 1], Text(f"    … {hidden} more lines", "dim")]
        lines.append(self._footer(now))
        for line in lines:
            line.truncate(width - 1, overflow="ellipsis")
        return Group(*lines)

    def _step(self, view: StepRunView, now: float, width: int) -> list[Text]:
        spinner = _SPINNER[self._frames % len(_SPINNER)]
        if view.loop is None:
            line = _line(f"{spinner} ", "cyan", view.step, live_text.activity_text(view, now))
            line.append(f"  {live_text.lasted(view.elapsed_s(now))}", "dim")
        else:
            line = _line(f"{spinner} ", "cyan", view.step, "")
            line.append_text(_bar(view.loop.level, max(_BAR // 3, min(_BAR, width - _BESIDE_BAR))))
            line.append(f"{live_text.counted(view.loop, view.pipeline.retries)}  ")
            line.append(live_text.lasted(view.elapsed_s(now)), "dim")
        lines = [line]
        if (retry := view.pipeline.retry) is not None and retry.error is not None:
            lines.append(Text.assemble(" " * (_NAME + 4), ("↻ ", "yellow"), live_text.error_line(retry.error)))
        return lines

    def _footer(self, now: float) -> Text:
        progress = self._progress
        if progress.started_at is None:
            return Text("  starting", "dim")
        parts = [
            progress.status,
            live_text.lasted(max(0.0, now - progress.started_at)),
            f"{live_text.many(progress.done, 'step', 'steps')} done",
        ]
        if progress.failed:
            parts.append(f"{progress.failed:,} failed")
        return Text(f"  {visible(progress.path)} · {' · '.join(parts)}", "dim")


def _line(sign: str, style: str, step: str | None, words: str) -> Text:
    return Text.assemble((sign, style), f"{live_text.named(step or ''):{_NAME}}  ", words)


def _ended(event: Event, payload: StepDone | StepFailed | LoopDone, view: StepRunView) -> Text:
    """The final line of a step run."""
    took, pipeline = live_text.lasted(view.elapsed_s(event.ts)), view.pipeline
    retries = ", " + live_text.many(pipeline.retries, "retry", "retries") if pipeline.retries else ""
    match payload:
        case StepFailed():
            where = f" at {live_text.named(pipeline.failing_task)}" if pipeline.failing_task else ""
            words = f"failed{where} after {took}{retries}: {live_text.error_line(payload.error)}"
            return _line("✗ ", "red", view.step, words)
        case LoopDone():
            failed = f", {payload.failed:,} failed" if payload.failed else ""
            words = f"done, {payload.done:,} of {payload.total:,} iterations in {took}{failed}{retries}"
            return _line("✓ ", "green", view.step, words)
        case _:
            return _line("✓ ", "green", view.step, f"done in {took}{retries}")


def _bar(level: LoopLevel, size: int) -> Text:
    filled = size * level.ended // level.total if level.total else size
    # Round up: a single failure among thousands must be visible.
    bad = min(filled, -(-size * level.failed // level.total)) if level.total else 0
    return Text.assemble(("━" * (filled - bad), "green"), ("━" * bad, "red"), ("─" * (size - filled), "dim"), " ")
