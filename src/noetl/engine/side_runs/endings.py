"""The end of side runs: what becomes of a worker's report of one, and of those that nobody wants any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.base.ids import derived
from noetl.engine.decision import CloseOrder, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.side_runs.state import SideRun, SideRunKind
from noetl.events.compensation import CompensationDone, CompensationFailed, CompensationUnknown
from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import EventSource
from noetl.events.side_runs import AsyncDone, HandlerDone, HandlerFailed, StepInterrupted
from noetl.events.steps import StepDone, StepFailed


def record_end(draft: Draft, execution: Execution, run: StepRun, end: StepDone | StepFailed, *, ts: float) -> None:
    """The worker has come to the end of a side run; what it belongs to goes on from there."""
    side_run = run.side_run
    assert side_run is not None
    result = end.result if isinstance(end, StepDone) else TaskResult()
    error = end.error if isinstance(end, StepFailed) else None
    about: dict[str, Any] = {"run": run, "ts": ts, "parent_id": run.event_id}
    match side_run.kind:
        case SideRunKind.COMPENSATION if error is not None:
            draft.add(CompensationFailed(registration_id=side_run.of, error=error), **about)
        case SideRunKind.COMPENSATION:
            draft.add(CompensationDone(registration_id=side_run.of, result=result), **about)
        case SideRunKind.HANDLER:
            _handled(draft, execution, side_run, result, error, about)
        case SideRunKind.ASYNC:
            about |= {"source": EventSource.WORKER, "task_run_id": side_run.task_run_id}
            draft.add(_async_done(side_run, result=result, error=error), **about)


def _handled(
    draft: Draft,
    execution: Execution,
    side_run: SideRun,
    result: TaskResult,
    error: Error | None,
    about: dict[str, Any],
) -> None:
    if error is None:
        event = draft.add(HandlerDone(owner=side_run.of, handler=side_run.index, result=result), **about)
    else:
        event = draft.add(HandlerFailed(owner=side_run.of, handler=side_run.index, error=error), **about)
    owner = execution.runs.get(side_run.of)
    if not side_run.interrupting or owner is None:
        return
    assert side_run.event is not None
    ended = StepInterrupted(event=side_run.event.name, data=side_run.event.data, result=result, error=error)
    draft.add(ended, run=owner, ts=about["ts"], parent_id=event.event_id)


def _async_done(side_run: SideRun, **end: Any) -> AsyncDone:
    assert side_run.task_run_id is not None
    return AsyncDone(task=side_run.task, task_run_id=side_run.task_run_id, tolerated=side_run.tolerated, **end)


def stop_side_runs(draft: Draft, execution: Execution, kinds: Iterable[SideRunKind], reason: str) -> None:
    """Nobody wants these side runs any more."""
    wanted = frozenset(kinds)
    for run_id in execution.side_work.step_runs:
        run = execution.runs[run_id]
        if run.side_run is not None and run.side_run.kind in wanted:
            _stop(draft, run, run.side_run, reason)


def stop_handlers(draft: Draft, execution: Execution, owner: str) -> None:
    """The step run they belong to is withdrawn."""
    for run_id in execution.side_work.step_runs:
        run = execution.runs[run_id]
        if run.side_run is not None and run.side_run.kind is SideRunKind.HANDLER and run.side_run.of == owner:
            _stop(draft, run, run.side_run, "its step was withdrawn")


def _stop(draft: Draft, run: StepRun, side_run: SideRun, reason: str) -> None:
    event_id = derived(run.event_id, "stopped")
    if any(event.event_id == event_id for event in draft.events):
        return  # it went with its step
    error = Error(kind="cancelled", message=reason)
    about: dict[str, Any] = {"run": run, "parent_id": run.event_id, "event_id": event_id}
    match side_run.kind:
        case SideRunKind.COMPENSATION:
            draft.add(CompensationUnknown(registration_id=side_run.of, reason=reason), **about)
        case SideRunKind.HANDLER:
            draft.add(HandlerFailed(owner=side_run.of, handler=side_run.index, error=error, stopped=True), **about)
        case SideRunKind.ASYNC:
            about |= {"on_behalf": True, "task_run_id": side_run.task_run_id}
            draft.add(_async_done(side_run, error=error, stopped=True), **about)
    assert run.lease.order_id is not None
    draft.add_effect(CloseOrder(run.lease.order_id, run.step_run_id, run.lease.lease_epoch))
