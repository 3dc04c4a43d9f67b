"""Progress of side runs: what runs beside the tokens, told from its events. A part of `progress`, which keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noetl.cli.step_view import StepView
from noetl.events.compensation import (
    CompensationDone,
    CompensationFailed,
    CompensationRequested,
    CompensationStarted,
    CompensationUnknown,
)
from noetl.events.side_runs import AsyncDone, AsyncStarted, HandlerDone, HandlerFailed, HandlerStarted, OrderClaimed

if TYPE_CHECKING:
    from noetl.cli.progress import RunProgress
    from noetl.events.envelope import Event


def _requested(progress: RunProgress, event: Event, payload: CompensationRequested, _: StepView | None) -> None:
    if event.execution_id == progress.execution_id:
        progress.to_undo += len(payload.registrations)


def _undone(progress: RunProgress, event: Event, _: CompensationStarted, __: StepView | None) -> None:
    if event.execution_id == progress.execution_id:
        progress.to_undo = max(0, progress.to_undo - 1)
    _begin(progress, event, "compensation")


def _handled(progress: RunProgress, event: Event, payload: HandlerStarted, _: StepView | None) -> None:
    _begin(progress, event, "handler", task=payload.task, about=payload.event.name)


def _begin_async(progress: RunProgress, event: Event, payload: AsyncStarted, _: StepView | None) -> None:
    _begin(progress, event, "async", task=payload.task)


def _begin(progress: RunProgress, event: Event, kind: str, **about: Any) -> None:
    assert event.step_run_id is not None, "a side run is a step run of its own"
    progress.side_runs[event.step_run_id] = StepView(progress.name(event), "", event.ts, side_run=kind, **about)


def _claimed(progress: RunProgress, event: Event, _: OrderClaimed, view: StepView | None) -> None:
    if view is not None:
        view.started_at = event.ts


def _over(progress: RunProgress, event: Event, _: Any, __: StepView | None) -> None:
    progress.side_runs.pop(event.step_run_id or "", None)


APPLY: dict[type, Callable[[RunProgress, Event, Any, StepView | None], None]] = {
    CompensationRequested: _requested,
    CompensationStarted: _undone,
    HandlerStarted: _handled,
    AsyncStarted: _begin_async,
    OrderClaimed: _claimed,
    CompensationDone: _over,
    CompensationFailed: _over,
    CompensationUnknown: _over,
    HandlerDone: _over,
    HandlerFailed: _over,
    AsyncDone: _over,
}
