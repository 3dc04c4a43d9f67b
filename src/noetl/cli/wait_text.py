"""Waits in words: what a step waits for, from the event that says so."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.waits import HumanCreated, MessageAwaited, SignalAwaited, TimerScheduled

Awaited = TimerScheduled | MessageAwaited | SignalAwaited | HumanCreated


def wait_id_of(payload: Awaited) -> str:
    return payload.task_id if isinstance(payload, HumanCreated) else payload.wait_id


def kind_of(payload: Awaited) -> str:
    return {"timer.scheduled": "timer", "message.awaited": "message", "signal.awaited": "signal"}.get(
        payload.event_type, "human_task"
    )


def awaited(payload: Awaited) -> str:
    """What is waited for, without the verb: until 2025-01-01 06:00:00, for message "paid" (order 7)."""
    from noetl.cli.live_text import local_time

    match payload:
        case TimerScheduled():
            return f"until {local_time(payload.due_at)}"
        case MessageAwaited():
            until = "" if payload.due_at is None else f", until {local_time(payload.due_at)}"
            return f'for message "{payload.name}"{_correlation_text(payload.correlation)}{until}'
        case SignalAwaited():
            return f'for signal "{payload.name}"'
        case HumanCreated():
            whose = payload.user or (f"role {payload.role}" if payload.role else "anybody")
            return f'for {whose} to complete "{payload.title}" (task {payload.task_id})'


def _correlation_text(correlation: dict[str, Any]) -> str:
    pairs = (f"{key}={msgspec.json.encode(value).decode()}" for key, value in correlation.items())
    return f" ({', '.join(pairs)})" if correlation else ""
