"""Timers that run, of one execution or of all that are open (TMR-04)."""

from __future__ import annotations

import math

from noetl.base.clock import rfc3339
from noetl.events.waits import TimerCancelled, TimerFired, TimerScheduled
from noetl.operations.api_shapes import TimerView
from noetl.store.contract import SingleRow, Store

_AMONG = 500  # open executions whose timers are listed


async def running_timers(store: Store, execution_id: str | None = None) -> list[TimerView]:
    """Those that have neither fired nor been cancelled, the nearest first. Without an execution: of those that time
    will move, the nearest first, and of paused ones, the newest first."""
    if execution_id is not None:
        return await _of_execution(store, execution_id)
    rows = [
        *await store.due(now=math.inf, limit=_AMONG),
        *await store.executions(limit=_AMONG, status="paused"),
    ]
    found = [timer for row in rows for timer in await _of_execution(store, row.execution_id)]
    return sorted(found, key=lambda timer: (timer.due_at, timer.id))


async def _of_execution(store: Store, execution_id: str) -> list[TimerView]:
    found: dict[str, tuple[float, TimerView]] = {}
    for event in await store.events(execution_id, only=SingleRow(types=("timer.*",))):
        payload = event.payload
        if isinstance(payload, TimerScheduled):
            found[payload.wait_id] = (
                payload.due_at,
                TimerView(
                    id=payload.wait_id,
                    timer=payload.timer_id,
                    execution_id=execution_id,
                    step=event.step,
                    due_at=rfc3339(payload.due_at),
                    cancellable=payload.cancellable,
                ),
            )
        elif isinstance(payload, TimerFired | TimerCancelled):
            found.pop(payload.wait_id, None)
    return [view for _, view in sorted(found.values(), key=lambda one: one[0])]
