"""Side runs of an execution, those that are over as well: what ran beside its tokens, for a Gantt chart.

Compensations, handlers, tasks that nobody waited for, and hooks that failed. A compensation is listed from the moment
it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.events.compensation import (
    CompensationDone,
    CompensationFailed,
    CompensationRegistered,
    CompensationRequested,
    CompensationStarted,
    CompensationUnknown,
)
from noetl.events.envelope import Event
from noetl.events.side_runs import (
    AsyncDone,
    AsyncStarted,
    HandlerDone,
    HandlerFailed,
    HandlerStarted,
    OrderClaimed,
)
from noetl.events.task_notes import HookFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.taxonomy import SIDE_RUN_ENDS, SIDE_RUNS

TYPES = (
    "compensation.registered",
    "compensation.requested",
    *SIDE_RUNS,
    *SIDE_RUN_ENDS,
    "order.claimed",
    "hook.failed",
)


class SideRunBar(msgspec.Struct, kw_only=True):
    """`kind`: compensation | handler | async | hook; `status`: pending | scheduled | running | done | failed |
    unknown | cancelled. `event` is what a handler handles, `owner` the step run it belongs to."""

    kind: str
    step: str
    step_run_id: str | None = None
    owner: str | None = None
    event: str | None = None
    task: str | None = None
    attempt: int = 1
    task_runs: int = 0
    status: str = "scheduled"
    scheduled_at: str
    started_at: str | None = None
    finished_at: str | None = None
    worker_id: str | None = None
    error: dict[str, Any] | None = None


class SideRunBars:
    """What the events taken so far tell."""

    def __init__(self) -> None:
        self.bars: list[SideRunBar] = []
        self._registered: dict[str, CompensationRegistered] = {}
        self._asked: dict[str, SideRunBar] = {}  # by registration
        self._runs: dict[str, SideRunBar] = {}

    def take(self, event: Event) -> None:
        ts, payload = rfc3339(event.ts), event.payload
        about: dict[str, Any]
        match payload:
            case CompensationRegistered():
                self._registered[payload.registration_id] = payload
            case CompensationRequested():
                self._ask(ts, payload.registrations)
            case CompensationStarted():
                if (asked := self._asked.get(payload.registration_id)) is not None:
                    asked.status, asked.step_run_id = "scheduled", event.step_run_id
                    self._runs[event.step_run_id or ""] = asked
            case HandlerStarted():
                about = {"owner": payload.owner, "event": payload.event.name, "task": payload.task}
                self._begin(event, SideRunBar(kind="handler", step=event.step or "", scheduled_at=ts, **about))
            case AsyncStarted():
                about = {"owner": payload.owner, "task": payload.task}
                self._begin(event, SideRunBar(kind="async", step=event.step or "", scheduled_at=ts, **about))
            case HookFailed():
                self._hook(event, payload, ts)
            case _ if (bar := self._runs.get(event.step_run_id or "")) is not None:
                _moved(bar, ts, payload)

    def _ask(self, ts: str, registrations: Iterable[str]) -> None:
        for registration_id in registrations:
            if (one := self._registered.get(registration_id)) is not None:
                bar = SideRunBar(kind="compensation", step=one.step, task=one.task, scheduled_at=ts, status="pending")
                self._asked[registration_id] = bar
                self.bars.append(bar)

    def _begin(self, event: Event, bar: SideRunBar) -> None:
        bar.step_run_id = event.step_run_id
        self._runs[event.step_run_id or ""] = bar
        self.bars.append(bar)

    def _hook(self, event: Event, payload: HookFailed, ts: str) -> None:
        bar = SideRunBar(
            kind="hook",
            step=event.step or "",
            owner=event.step_run_id,
            task=payload.hook,
            event=payload.phase,
            status="failed",
            scheduled_at=ts,
            finished_at=ts,
            error=payload.error.readable(),
        )
        self.bars.append(bar)


def _moved(bar: SideRunBar, ts: str, payload: Any) -> None:
    match payload:
        case OrderClaimed():
            bar.status, bar.started_at, bar.worker_id = "running", bar.started_at or ts, payload.worker_id
        case TaskStarted():
            bar.task, bar.attempt, bar.task_runs = payload.task, payload.attempt, bar.task_runs + 1
        case TaskProcessed() if payload.decision.next is not None:
            bar.task = payload.decision.next
        case CompensationDone() | HandlerDone():
            bar.status, bar.finished_at = "done", ts
        case AsyncDone() if payload.error is None:
            bar.status, bar.finished_at = "done", ts
        case CompensationUnknown():
            bar.status, bar.finished_at = "unknown", ts
            bar.error = {"kind": "compensation.unknown", "message": payload.reason}
        case CompensationFailed() | HandlerFailed() | AsyncDone():
            stopped = not isinstance(payload, CompensationFailed) and payload.stopped
            bar.status, bar.finished_at = "cancelled" if stopped else "failed", ts
            bar.error = payload.error.readable() if payload.error is not None else None
