"""Lines about what runs beside the tokens: compensations, handlers of events, tasks nobody waits for, hooks."""

from __future__ import annotations

from typing import Any

from noetl.cli.live_text import error_line
from noetl.cli.terminal import visible
from noetl.events.compensation import (
    CompensationDone,
    CompensationFailed,
    CompensationRequested,
    CompensationStarted,
    CompensationUnknown,
)
from noetl.events.side_runs import AsyncDone, AsyncStarted, HandlerDone, HandlerFailed, HandlerStarted, StepInterrupted
from noetl.events.task_notes import HookFailed, JobPlaced


def side_run_line(payload: Any) -> tuple[str, str | None] | None:
    """What is said of an event, and in which colour; nothing of most."""
    match payload:
        case CompensationRequested():
            return f"↶ {len(payload.registrations):,} to undo ({payload.cause})", None
        case CompensationStarted():
            return "↶ is undone", None
        case CompensationDone():
            return "↶ undone", "green"
        case CompensationFailed():
            return f"✗ not undone: {error_line(payload.error)}", "red"
        case CompensationUnknown():
            return f"✗ perhaps undone: {visible(payload.reason)}", "red"
        case HandlerStarted():
            return f"▸ handles {visible(payload.event.name)}", None
        case HandlerDone():
            return "✓ handled", "green"
        case HandlerFailed():
            return f"✗ handler failed: {error_line(payload.error)}", "red"
        case StepInterrupted():
            return f"- interrupted by {visible(payload.event)}", "yellow"
        case AsyncStarted():
            return f"▸ {visible(payload.task)} runs beside", None
        case AsyncDone() if payload.error is None:
            return f"✓ {visible(payload.task)} done beside", "green"
        case AsyncDone() if payload.error is not None:
            return f"✗ {visible(payload.task)} failed beside: {error_line(payload.error)}", "red"
        case HookFailed():
            return f"- {payload.phase} hook {visible(payload.hook)} failed: {error_line(payload.error)}", "yellow"
        case JobPlaced():
            return f"▸ {visible(payload.task)} placed on {visible(payload.backend)}", None
    return None
