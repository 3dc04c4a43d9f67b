"""The timeline: every step run with its times, its waits and its tasks, and what ran beside them, for a Gantt chart.
Iterations are counted, not listed.

A step run ends with the event its arcs are evaluated on: one that waits for time, a message or a person has not ended
when its pipeline has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.events.case_runs import CaseHeard, CaseWaiting
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, IterationFailed, LoopDone, LoopStarted
from noetl.events.routing import NextSelected
from noetl.events.steps import StepDone, StepFailed, StepScheduled, StepStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.taxonomy import WAITS
from noetl.events.tokens import TokenDropped
from noetl.events.waits import HumanCreated, MessageAwaited, SignalAwaited, StepTimeout, TimerScheduled
from noetl.server.services import Services
from noetl.server.views import side_runs as side_runs
from noetl.server.views.side_runs import SideRunBar, SideRunBars
from noetl.store.contract import ExecutionRow, SingleRow

_TYPES = (
    "step.scheduled",
    "step.started",
    "step.done",
    "step.failed",
    "step.timeout",
    "task.started",
    "task.processed",
    "loop.started",
    "loop.done",
    "loop.iteration.done",
    "loop.iteration.failed",
    *WAITS,
    "case.heard",
    "next.selected",
    "token.dropped",
    *side_runs.TYPES,
)
# What tells of step runs alone: bounded by the steps of a run and the items that failed, not by all items of its loops.
_STEP_TYPES = tuple(
    one for one in _TYPES if one not in ("task.started", "task.processed", "loop.iteration.done", *side_runs.TYPES)
)
_PAGE = 2_000
_MOST_TASKS = 500  # listed of one step run
_WITHDRAWN = frozenset({"cancelled", "ended", "late"})  # drops that are nobody's failure


class TaskBar(msgspec.Struct, kw_only=True):
    """`delay_s` is how long the policy waits after it before the same task is run again."""

    task: str
    attempt: int
    started_at: str | None
    finished_at: str | None = None
    status: str = "running"
    do: str | None = None
    delay_s: float = 0.0


class StepBar(msgspec.Struct, kw_only=True):
    """It was queued from `scheduled_at` to `started_at`, and waits since `waiting_at` for what `waits_for` names.
    `total`, `done` and `failed` are iterations of its outermost level. `task_runs` counts tasks that are not listed
    too."""

    step: str
    step_run_id: str
    scheduled_at: str
    started_at: str | None = None
    waiting_at: str | None = None
    waits_for: list[str] = []
    finished_at: str | None = None
    status: str = "scheduled"
    worker_id: str | None = None
    error: dict[str, Any] | None = None
    total: int | None = None
    done: int = 0
    failed: int = 0
    task_runs: int = 0
    tasks: list[TaskBar] = []


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    execution_id: str
    steps: list[StepBar]
    side_runs: list[SideRunBar] = []


async def timeline_of(services: Services, row: ExecutionRow) -> Timeline:
    bars: dict[str, StepBar] = {}
    beside = SideRunBars()
    async for events in _pages(services, row.execution_id):
        for event in events:
            if event.step_run_id is not None:
                _take(bars, event, event.step_run_id)
            beside.take(event)
    return Timeline(execution_id=row.execution_id, steps=list(bars.values()), side_runs=beside.bars)


async def step_bars(services: Services, execution_id: str) -> list[StepBar]:
    """Step runs without their tasks, from the first events of an execution that tell of them: a quick look at many."""
    bars: dict[str, StepBar] = {}
    for event in await services.store.events(execution_id, only=SingleRow(types=_STEP_TYPES, limit=_PAGE)):
        if event.step_run_id is not None:
            _take(bars, event, event.step_run_id)
    return list(bars.values())


async def _pages(services: Services, execution_id: str) -> AsyncIterator[list[Event]]:
    after = 0
    while events := await services.store.events(execution_id, after=after, only=SingleRow(types=_TYPES, limit=_PAGE)):
        yield events
        after = events[-1].seq


def _take(bars: dict[str, StepBar], event: Event, step_run_id: str) -> None:
    ts, payload = rfc3339(event.ts), event.payload
    if isinstance(payload, StepScheduled):
        bars[step_run_id] = StepBar(step=event.step or "", step_run_id=step_run_id, scheduled_at=ts)
    bar = bars.get(step_run_id)
    if bar is None:
        return
    match payload:
        case StepStarted():
            bar.started_at, bar.status, bar.worker_id = bar.started_at or ts, "running", payload.worker_id
        case StepDone() | LoopDone():
            _end(bar, ts, "done")
        case StepFailed():
            bar.error = payload.error.readable()
            _end(bar, ts, "failed")
        case LoopStarted() if payload.path == ():
            bar.total = payload.total
        case IterationDone() if len(payload.path) == 1:
            bar.done += 1
        case IterationFailed() if len(payload.path) == 1:
            bar.failed += 1
        case TaskStarted() | TaskProcessed():
            _task(bar, event, payload)
        case _:
            _moved(bar, ts, payload)


def _moved(bar: StepBar, ts: str, payload: Any) -> None:
    """Into a wait, out of it, or away."""
    match payload:
        case TimerScheduled():
            _wait(bar, ts, f"until {rfc3339(payload.due_at)}")
        case MessageAwaited():
            _wait(bar, ts, f"message {payload.name}")
        case SignalAwaited():
            _wait(bar, ts, f"signal {payload.name}")
        case HumanCreated():
            _wait(bar, ts, f"{payload.user or payload.role or 'somebody'}: {payload.title}")
        case CaseWaiting():
            _wait(bar, ts, "an event that its rules name")
        case CaseHeard():
            bar.status, bar.waiting_at, bar.waits_for = "running", None, []
        case StepTimeout():
            _end(bar, ts, "failed" if payload.action == "fail" else "done")
        case NextSelected() if bar.status == "waiting":
            _end(bar, ts, "failed" if payload.error is not None else "done")
        case TokenDropped() if bar.finished_at is None:
            _end(bar, ts, "cancelled" if payload.reason in _WITHDRAWN else "failed")


def _wait(bar: StepBar, ts: str, what: str) -> None:
    """A step without tools is decided in place and has started then; its pipeline's end was not its own."""
    bar.started_at = bar.started_at or ts
    bar.waiting_at, bar.finished_at, bar.status = bar.waiting_at or ts, None, "waiting"
    bar.waits_for = [*bar.waits_for, what]


def _end(bar: StepBar, ts: str, status: str) -> None:
    bar.finished_at, bar.status = ts, status


def _task(bar: StepBar, event: Event, payload: TaskStarted | TaskProcessed) -> None:
    if isinstance(payload, TaskStarted):
        bar.task_runs += 1
        if not payload.path and len(bar.tasks) < _MOST_TASKS:
            bar.tasks.append(TaskBar(task=payload.task, attempt=payload.attempt, started_at=rfc3339(event.ts)))
        return
    if payload.path:
        return
    meta, status = payload.outcome.meta, payload.outcome.status.value
    open_bars = (one for one in reversed(bar.tasks) if (one.task, one.attempt) == (payload.task, payload.attempt))
    found = next(open_bars, None)
    if found is None or found.finished_at is not None:
        if len(bar.tasks) >= _MOST_TASKS:
            return
        found = TaskBar(task=payload.task, attempt=payload.attempt, started_at=rfc3339(meta.started_at))
        bar.tasks.append(found)
    found.finished_at, found.status, found.do = rfc3339(meta.finished_at), status, payload.decision.do
    found.delay_s = payload.decision.delay_s
