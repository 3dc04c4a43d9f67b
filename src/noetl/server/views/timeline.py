"""The timeline: every step run with its times, its waits and its tasks, and what ran beside them, for a Gantt chart.
Iterations are counted, not listed.

A step run ends with the event its arcs are evaluated on: one that waits for time, a message or a person has not ended
when its pipeline has. The projection reads the log; this module converts it to the shape of the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.events.loops import LoopLevel
from noetl.events.projection.projection import SIDE_RUN_EVENTS, STEP_EVENTS, TASK_EVENTS, Projection
from noetl.events.projection.views import Awaited, StepRunView, TaskRunView
from noetl.events.steps import CaseWaiting
from noetl.events.waits import HumanCreated, MessageAwaited, SignalAwaited, TimerScheduled
from noetl.operations.api_shapes import PauseView
from noetl.operations.executions import pauses_of
from noetl.store.contract import EventFilter, ExecutionRow

if TYPE_CHECKING:
    from noetl.server.services import Services

# Everything else is left in the store: events of loops and variables are most of a long log.
_TYPES = (*STEP_EVENTS, *TASK_EVENTS, "loop.iteration.done", *SIDE_RUN_EVENTS)
_PAGE = 2_000


class TaskBar(msgspec.Struct, kw_only=True):
    """One start of a task. `status` is "lost" where its worker was lost, cut off or shut down, some time before
    `finished_at`: then the task began again, as `start` 2 of the same attempt. `delay_s` is how long the policy waits
    after it before the same task is run again."""

    task: str
    attempt: int
    start: int = 1
    started_at: str | None
    finished_at: str | None = None
    status: str = "running"
    worker_id: str | None = None
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


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    execution_id: str
    steps: list[StepBar]
    side_runs: list[SideRunBar] = []
    pauses: list[PauseView] = []


async def timeline(services: Services, row: ExecutionRow) -> Timeline:
    history: list[StepRunView] = []
    projection, after = Projection(history), 0
    # In pages: a log may have a million events, and the projection keeps far less than it reads.
    while page := await services.store.events(
        row.execution_id, after=after, only=EventFilter(types=_TYPES, limit=_PAGE)
    ):
        projection.take_all(page)
        after = page[-1].seq
    return Timeline(
        execution_id=row.execution_id,
        steps=[_step_bar(view) for view in history if view.origin is None],
        side_runs=[_side_run_bar(view) for view in history if view.origin is not None],
        pauses=await pauses_of(services.store, row.execution_id),
    )


def _step_bar(view: StepRunView) -> StepBar:
    loop = view.loop.levels[0] if view.loop is not None else LoopLevel()
    return StepBar(
        **_shared_fields(view, StepBar, task_runs=view.pipeline.runs, done=loop.done, failed=loop.failed),
        total=loop.total if view.loop is not None else None,
        waits_for=[_wait_text(item) for item in view.waits_for],
        tasks=[bar for item in view.pipeline.listed for bar in _task_bars(item)],
    )


def _task_bars(view: TaskRunView) -> list[TaskBar]:
    """Each start of it that was lost, then the one that came to an outcome or still runs."""
    lost = [
        TaskBar(
            task=view.task,
            attempt=view.attempt,
            start=number,
            started_at=rfc3339(one.started_at),
            finished_at=rfc3339(one.begun_again_at),
            status="lost",
            worker_id=one.worker_id,
        )
        for number, one in enumerate(view.lost, 1)
    ]
    started_at = rfc3339(view.last_started_at)
    return [*lost, TaskBar(**_shared_fields(view, TaskBar, start=len(lost) + 1, started_at=started_at))]


def _side_run_bar(view: StepRunView) -> SideRunBar:
    origin, pipeline = view.origin, view.pipeline
    assert origin is not None, "what has no origin is a step run"
    about: dict[str, Any] = {"kind": origin.kind, "owner": origin.owner, "event": origin.event}
    about |= {"task": pipeline.task, "attempt": pipeline.attempt, "task_runs": pipeline.runs}
    return SideRunBar(**_shared_fields(view, SideRunBar, **about))


def _shared_fields(view: StepRunView | TaskRunView, shape: type[msgspec.Struct], **about: Any) -> dict[str, Any]:
    """The fields that a shape shares with a view, with times and errors in readable form."""
    for name in {*shape.__struct_fields__} & {*view.__struct_fields__} - {*about, "waits_for"}:
        value = getattr(view, name)
        about[name] = rfc3339(value) if name.endswith("_at") and value is not None else value
    if about.get("error") is not None:
        about["error"] = about["error"].readable()
    return about


def _wait_text(payload: Awaited | CaseWaiting) -> str:
    match payload:
        case TimerScheduled():
            return f"until {rfc3339(payload.due_at)}"
        case MessageAwaited():
            return f"message {payload.name}"
        case SignalAwaited():
            return f"signal {payload.name}"
        case HumanCreated():
            return f"{payload.user or payload.role or 'somebody'}: {payload.title}"
        case CaseWaiting():
            return "an event that its rules name"
