"""The end of errands: what becomes of a worker's report of one, and of those that nobody wants any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.engine.decision import CloseOrder, Draft
from noetl.engine.errands.state import Errand, ErrandKind
from noetl.engine.execution import Execution, StepRun
from noetl.ids import derived
from noetl.records.compensation import CompensationDone, CompensationFailed, CompensationUnknown
from noetl.records.errands import AsyncDone, HandlerDone, HandlerFailed, StepInterrupted
from noetl.records.outcomes import Error, TaskResult
from noetl.records.steps import StepDone, StepFailed
from noetl.records.taxonomy import Source


def record_end(
    draft: Draft, execution: Execution, run: StepRun, end: StepDone | StepFailed, *, event_id: str, ts: float
) -> None:
    """The worker has come to the end of an errand; what it belongs to goes on from there."""
    errand = run.errand
    assert errand is not None
    result = end.result if isinstance(end, StepDone) else TaskResult()
    error = end.error if isinstance(end, StepFailed) else None
    about: dict[str, Any] = {"run": run, "event_id": event_id, "ts": ts, "parent_id": run.event_id}
    match errand.kind:
        case ErrandKind.COMPENSATION if error is not None:
            draft.add(CompensationFailed(registration_id=errand.of, error=error), **about)
        case ErrandKind.COMPENSATION:
            draft.add(CompensationDone(registration_id=errand.of, result=result), **about)
        case ErrandKind.HANDLER:
            _handled(draft, execution, errand, result, error, about)
        case ErrandKind.ASYNC:
            about |= {"source": Source.WORKER, "task_run_id": errand.task_run_id}
            draft.add(_async_done(errand, result=result, error=error), **about)


def _handled(
    draft: Draft, execution: Execution, errand: Errand, result: TaskResult, error: Error | None, about: dict[str, Any]
) -> None:
    if error is None:
        event = draft.add(HandlerDone(owner=errand.of, handler=errand.index, result=result), **about)
    else:
        event = draft.add(HandlerFailed(owner=errand.of, handler=errand.index, error=error), **about)
    owner = execution.runs.get(errand.of)
    if not errand.interrupting or owner is None:
        return
    assert errand.event is not None
    ended = StepInterrupted(event=errand.event.name, data=errand.event.data, result=result, error=error)
    event_id = derived(event.event_id, StepInterrupted.event_type)
    draft.add(ended, run=owner, event_id=event_id, ts=about["ts"], parent_id=event.event_id)


def _async_done(errand: Errand, **end: Any) -> AsyncDone:
    assert errand.task_run_id is not None
    return AsyncDone(task=errand.task, task_run_id=errand.task_run_id, tolerated=errand.tolerated, **end)


def stop_errands(draft: Draft, execution: Execution, kinds: Iterable[ErrandKind], reason: str) -> None:
    """Nobody wants these errands any more."""
    wanted = frozenset(kinds)
    for run_id in execution.errands:
        run = execution.runs[run_id]
        if run.errand is not None and run.errand.kind in wanted:
            _stop(draft, run, run.errand, reason)


def stop_handlers(draft: Draft, execution: Execution, owner: str) -> None:
    """The step run they belong to is withdrawn."""
    for run_id in execution.errands:
        run = execution.runs[run_id]
        if run.errand is not None and run.errand.kind is ErrandKind.HANDLER and run.errand.of == owner:
            _stop(draft, run, run.errand, "its step was withdrawn")


def _stop(draft: Draft, run: StepRun, errand: Errand, reason: str) -> None:
    event_id = derived(run.event_id, "stopped")
    if any(event.event_id == event_id for event in draft.events):
        return  # it went with its step
    error = Error(kind="cancelled", message=reason)
    about: dict[str, Any] = {"run": run, "parent_id": run.event_id, "event_id": event_id}
    match errand.kind:
        case ErrandKind.COMPENSATION:
            draft.add(CompensationUnknown(registration_id=errand.of, reason=reason), **about)
        case ErrandKind.HANDLER:
            draft.add(HandlerFailed(owner=errand.of, handler=errand.index, error=error, stopped=True), **about)
        case ErrandKind.ASYNC:
            about |= {"on_behalf": True, "task_run_id": errand.task_run_id}
            draft.add(_async_done(errand, error=error, stopped=True), **about)
    assert run.order_id is not None
    draft.owe(CloseOrder(run.order_id, run.step_run_id, run.lease_epoch))
