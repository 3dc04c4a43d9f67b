"""The part of the fold about side runs: compensations, handlers, tasks that nobody waits for, hooks that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noetl.events.compensation import (
    CompensationDone,
    CompensationFailed,
    CompensationRegistered,
    CompensationRequested,
    CompensationStarted,
    CompensationUnknown,
)
from noetl.events.envelope import Event
from noetl.events.outcomes import Error
from noetl.events.payloads import Payload
from noetl.events.projection.views import PipelineView, SideRunOrigin, StepRunView, Undoable
from noetl.events.side_runs import AsyncDone, AsyncStarted, HandlerDone, HandlerFailed, HandlerStarted
from noetl.events.task_notes import HookFailed

if TYPE_CHECKING:
    from noetl.events.projection.projection import Projection

Ending = CompensationDone | CompensationFailed | CompensationUnknown | HandlerDone | HandlerFailed | AsyncDone


def _registered(fold: Projection, event: Event, payload: CompensationRegistered, _: StepRunView | None) -> None:
    if event.execution_id == fold.execution_id:
        fold.undoable[payload.registration_id] = Undoable(payload.step, payload.task, payload.path)


def _requested(fold: Projection, event: Event, payload: CompensationRequested, _: StepRunView | None) -> None:
    """Each is listed from here on, in the order in which they are undone."""
    if event.execution_id != fold.execution_id:
        return
    for registration_id in payload.registrations:
        undoable = fold.undoable.pop(registration_id, None) or Undoable("", "")
        origin, pipeline = SideRunOrigin(kind="compensation", path=undoable.path), PipelineView(undoable.task or None)
        view = StepRunView(
            step=undoable.step, scheduled_at=event.ts, status="pending", origin=origin, pipeline=pipeline
        )
        fold.pending[registration_id] = view
        fold.remember(view)


def _undone(fold: Projection, event: Event, payload: CompensationStarted, _: StepRunView | None) -> None:
    view = fold.pending.pop(payload.registration_id, None)
    if view is None:  # of a nested execution
        _begin(fold, event, SideRunOrigin(kind="compensation"), None)
        return
    view.status, view.step_run_id = "scheduled", event.step_run_id
    fold.side_runs[event.step_run_id or ""] = view


def _handled(fold: Projection, event: Event, payload: HandlerStarted, _: StepRunView | None) -> None:
    _begin(fold, event, SideRunOrigin(kind="handler", owner=payload.owner, event=payload.event.name), payload.task)
    if payload.interrupting:  # the body of its step is stopped
        fold.no_longer(payload.owner)


def _begin_async(fold: Projection, event: Event, payload: AsyncStarted, _: StepRunView | None) -> None:
    _begin(fold, event, SideRunOrigin(kind="async", owner=payload.owner), payload.task)


def _begin(fold: Projection, event: Event, origin: SideRunOrigin, task: str | None) -> None:
    assert event.step_run_id is not None, "a side run is a step run of its own"
    view = StepRunView(
        step=fold.name(event),
        scheduled_at=event.ts,
        step_run_id=event.step_run_id,
        origin=origin,
        pipeline=PipelineView(task),
    )
    fold.side_runs[event.step_run_id] = view
    fold.remember(view)


def _hook_failed(fold: Projection, event: Event, payload: HookFailed, _: StepRunView | None) -> None:
    """Over at once, so that only those who keep what is over see it."""
    origin = SideRunOrigin(kind="hook", owner=event.step_run_id, event=payload.phase)
    view = StepRunView(step=fold.name(event), scheduled_at=event.ts, origin=origin, pipeline=PipelineView(payload.hook))
    view.end("failed", event.ts, payload.error)
    fold.remember(view)


def _over(fold: Projection, event: Event, payload: Ending, view: StepRunView | None) -> None:
    fold.side_runs.pop(event.step_run_id or "", None)
    if view is None:
        return
    match payload:
        case CompensationUnknown():
            view.end("unknown", event.ts, Error(kind=payload.event_type, message=payload.reason))
        case HandlerFailed(stopped=True) | AsyncDone(stopped=True):
            view.end("cancelled", event.ts, payload.error)
        case CompensationFailed() | HandlerFailed():
            view.end("failed", event.ts, payload.error)
        case AsyncDone():
            view.end("done" if payload.error is None else "failed", event.ts, payload.error)
        case _:
            view.end("done", event.ts)


APPLY: dict[type[Payload], Callable[[Projection, Event, Any, StepRunView | None], None]] = {
    CompensationRegistered: _registered,
    CompensationRequested: _requested,
    CompensationStarted: _undone,
    HandlerStarted: _handled,
    AsyncStarted: _begin_async,
    HookFailed: _hook_failed,
    CompensationDone: _over,
    CompensationFailed: _over,
    CompensationUnknown: _over,
    HandlerDone: _over,
    HandlerFailed: _over,
    AsyncDone: _over,
}
