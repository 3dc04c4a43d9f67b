"""Texts of errors, counts, times, states and side runs, for both live views (lines and screen).

Text from playbooks and tools is made safe to print here. Nothing in this module prints.
"""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec

from noetl.cli.terminal import visible
from noetl.events import side_runs
from noetl.events.control import LimitChanged
from noetl.events.outcomes import Error
from noetl.events.projection.projection import Projection
from noetl.events.projection.views import Awaited, Held, LoopProgress, StepRunView
from noetl.events.tasks import HookFailed, JobPlaced
from noetl.events.waits import HumanCreated, MessageAwaited, SignalAwaited, TimerScheduled

# The width of a message in a list. The error that ended an execution is shown up to WHOLE.
WIDEST = 160
# Large, because the fix is at the end of a message.
WHOLE = 2_000
# The width of one line of a service's answer.
ANSWER_WIDEST = 500
ANSWER_LINES = 8
# The width of a step's or task's name: a longer one would leave no room for its state.
NAME = 48
_HELD = {
    "join": "waits for the others at the join",
    "park": "waits for a change of ctx",
    "limit": "waits for a free slot",
    "compensation": "waits until everything is undone",
}


def error_line(error: Error, widest: int = WIDEST) -> str:
    """An error in one line: its kind, its message, and its cause."""
    text = f"{error.kind}: {error.message}"
    if error.cause is not None:
        text += f" (because of {error.cause.kind}: {error.cause.message})"
    return clipped(text, widest)


def detail_lines(error: Error) -> list[str]:
    """The lines below an error, safe to print: the traceback of the task's own code, or the answer of a service. Empty
    for other errors."""
    details = error.details or {}
    trace, answer = details.get("trace"), details.get("data")
    if isinstance(trace, list):
        return [printed(str(line)) for line in trace]
    if error.kind == "http.status" and answer not in (None, "", {}, []):
        return _answer_lines(answer)
    return detail_lines(error.cause) if error.cause is not None else []


def _answer_lines(answer: Any) -> list[str]:
    """The first lines of an answer, which may contain the reason: a page of HTML is long and says little."""
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    lines = [clipped(line, ANSWER_WIDEST) for line in text.splitlines() if line.strip()]
    more = [f"… {len(lines) - ANSWER_LINES:,} more lines"] if len(lines) > ANSWER_LINES else []
    return [f"answer: {line}" if not number else line for number, line in enumerate(lines[:ANSWER_LINES])] + more


_MOST_AT_WORK = 5
_STYLES = re.compile(r"\x1b\[[0-9;:]*m")


def printed(line: str) -> str:
    """A line of a program's output, safe to print: without colours, and with control characters made visible."""
    # Colours are removed and not made visible: programs colour their output on purpose, and the codes say nothing.
    return visible(_STYLES.sub("", line))


def clipped(text: str, widest: int = WIDEST) -> str:
    """Text on one line, safe to print."""
    first = visible(" ".join(text.split()))
    return first if len(first) <= widest else first[: widest - 1] + "…"


def named(name: str) -> str:
    """The name of a step or task, safe to print; a very long one is cut."""
    return clipped(name, NAME)


def lasted(seconds: float) -> str:
    """A duration: 12 ms, 3.2 s, 42 s, 2:05, 1:02:05."""
    # 0.9995 and not 1: from there on it would be rounded to "1000 ms".
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def many(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def local_time(moment: float) -> str:
    """A moment in the reader's own time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def counted(loop: LoopProgress, retries: int = 0) -> str:
    """A loop as text: 4,500 of 10,000 (45 %), 3 failed, 7,012/s, 0.8 s left."""
    level = loop.level
    # Rounded down, so that 100 % means that all of them have ended.
    percent = 100 * level.ended // level.total if level.total else 100
    parts = [f"{level.ended:,} of {level.total:,} ({percent} %)"]
    if level.failed:
        parts.append(f"{level.failed:,} failed")
    if (rate := loop.rate()) is not None:
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
    if (left_s := loop.left_s()) is not None and level.ended < level.total:
        parts.append(f"{lasted(left_s)} left")
    parts += [f"outer {outer.ended:,} of {outer.total:,}" for outer in reversed(loop.levels[:-1])]
    if retries:
        parts.append(many(retries, "retry", "retries"))
    return ", ".join(parts)


def activity_text(view: StepRunView, now: float) -> str:
    """The present activity of a step run."""
    pipeline = view.pipeline
    if view.loop is not None:
        return counted(view.loop, pipeline.retries)
    if view.started_at is None:
        return "waits for a worker"
    task = named(pipeline.task or "")
    if pipeline.retry is not None and pipeline.retry.at > now:
        return f"{task} again in {lasted(pipeline.retry.at - now)} (attempt {pipeline.retry.attempt})"
    attempt = f" (attempt {pipeline.attempt})" if pipeline.attempt > 1 else ""
    return f"runs {task}{attempt}" if task else "runs"


def side_run_words(view: StepRunView, now: float) -> str:
    """The kind of a side run and what it does: compensation runs undo."""
    assert view.origin is not None
    handled = f" of {visible(view.origin.event)}" if view.origin.event else ""
    return f"{view.origin.kind}{handled} {activity_text(view, now)}"


def limit_words(payload: LimitChanged) -> str:
    """A limit that was changed: limit set to 3 at once, 10 in 1 s."""
    words = [f"{payload.limit:,} at once"] if payload.limit is not None else []
    words += [f"{payload.rate.limit:,} in {payload.rate.per_s:g} s"] if payload.rate is not None else []
    why = f": {visible(payload.reason)}" if payload.reason else ""
    return (f"limit set to {', '.join(words)}" if words else "limit reset") + why


def awaited(payload: Awaited) -> str:
    """The awaited thing without the verb: until 2025-01-01 06:00:00, for message "paid" (order 7)."""
    match payload:
        case TimerScheduled():
            return f"until {local_time(payload.due_at)}"
        case MessageAwaited():
            until = "" if payload.due_at is None else f", until {local_time(payload.due_at)}"
            return f'for message "{payload.name}"{_correlation_text(payload.correlation)}{until}'
        case SignalAwaited():
            return f'for signal "{payload.name}"'
        case HumanCreated():
            whose = payload.user or (f"human role {payload.role}" if payload.role else "anybody")
            return f'for {whose} to complete "{payload.title}" (task {payload.task_id})'


def _correlation_text(correlation: dict[str, Any]) -> str:
    pairs = (f"{key}={msgspec.json.encode(value).decode()}" for key, value in correlation.items())
    return f" ({', '.join(pairs)})" if correlation else ""


def waiting(held: Held) -> str:
    if held.awaited is not None:
        return f"waits {clipped(awaited(held.awaited))}"
    return _HELD.get(held.reason, f"waits ({visible(held.reason)})")


def _activity_text(view: StepRunView, now: float) -> str:
    return activity_text(view, now) if view.origin is None else side_run_words(view, now)


def at_work(progress: Projection, now: float) -> str:
    """All running steps and side runs in one line."""
    views = [*progress.steps.values(), *progress.side_runs.values()]
    parts = [
        f"{named(view.step)} {_activity_text(view, now)} ({lasted(view.elapsed_s(now))})"
        for view in views[:_MOST_AT_WORK]
    ]
    parts += [
        f"{named(held.step)} {waiting(held)}" for held in list(progress.held.values())[: _MOST_AT_WORK - len(parts)]
    ]
    more = len(views) + len(progress.held) - len(parts)
    if more > 0:
        parts.append(f"{more} more")
    return "; ".join(parts) or "nothing is under way"


def side_run_line(payload: Any) -> tuple[str, str | None] | None:
    """The line for an event of a side run, and its colour; None for other events."""
    match payload:
        case side_runs.CompensationRequested():
            return f"↶ {len(payload.registrations):,} to undo ({payload.cause})", None
        case side_runs.CompensationStarted():
            return "↶ is undone", None
        case side_runs.CompensationDone():
            return "↶ undone", "green"
        case side_runs.CompensationFailed():
            return f"✗ not undone: {error_line(payload.error)}", "red"
        case side_runs.CompensationUnknown():
            return f"✗ perhaps undone: {visible(payload.reason)}", "red"
        case side_runs.HandlerStarted():
            return f"▸ handles {visible(payload.event.name)}", None
        case side_runs.HandlerDone():
            return "✓ handled", "green"
        case side_runs.HandlerFailed():
            return f"✗ handler failed: {error_line(payload.error)}", "red"
        case side_runs.StepInterrupted():
            return f"- interrupted by {visible(payload.event)}", "yellow"
        case side_runs.AsyncStarted():
            return f"▸ {visible(payload.task)} runs beside", None
        case side_runs.AsyncDone() if payload.error is None:
            return f"✓ {visible(payload.task)} done beside", "green"
        case side_runs.AsyncDone() if payload.error is not None:
            return f"✗ {visible(payload.task)} failed beside: {error_line(payload.error)}", "red"
        case HookFailed():
            return f"- {payload.phase} hook {visible(payload.hook)} failed: {error_line(payload.error)}", "yellow"
        case JobPlaced():
            return f"▸ {visible(payload.task)} placed on {visible(payload.backend)}", None
    return None
