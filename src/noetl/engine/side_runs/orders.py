"""Orders of side runs: the data that a worker needs (WRK-04), how one is claimed and how it ends. Also the start of
tasks with `spec.async`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from noetl.base.ids import derived
from noetl.engine.commands import ClaimOrder
from noetl.engine.decision import CloseOrder, Decision, DispatchStep, Draft, LeaseOrder
from noetl.engine.execution import Execution, StepRun
from noetl.engine.identity import order_id_of
from noetl.engine.side_runs.state import SideRun, SideRunKind
from noetl.events import side_runs
from noetl.events.orders import Outer, Position, ReportResult, SideRunOrder
from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import EventSource
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_positions import OwnEvent
from noetl.net.net import Transition


def side_run_fields(execution: Execution, run: StepRun) -> dict[str, Any]:
    """The fields of an order that differ for a side run; empty for a plain step run."""
    side_run = run.side_run
    if side_run is None:
        return {}
    match side_run.kind:
        case SideRunKind.COMPENSATION:
            registration = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
            assert registration is not None, "a compensation has its registration until it ends"
            return _compensation(execution, run, registration)
        case SideRunKind.HANDLER:
            assert side_run.event is not None
            part = f"handlers/{side_run.index}"
            return {"side_run": SideRunOrder(part=part, names={"event": event_names(side_run.event)})}
        case SideRunKind.ASYNC:
            own = SideRunOrder(part="tasks", outer=_outer(side_run.around), task_run_id=side_run.task_run_id)
            # Inside a loop `ctx` is that of the iteration, captured at the start; else the task reads the current one.
            return {"side_run": own, "ctx": dict(execution.variables.ctx if run.ctx is None else run.ctx)}


def _compensation(execution: Execution, run: StepRun, registration: side_runs.CompensationRegistered) -> dict[str, Any]:
    own = SideRunOrder(
        part="compensation",
        result=registration.result,
        outer=_outer(registration.around),
        once=runs_once(execution, run),
        child=registration.child,
        job_id=registration.job_id,
    )
    assert run.ctx is not None, "a compensation has a ctx of its own"
    return {"side_run": own, "ctx": dict(run.ctx), "results": registration.results}


def event_names(event: OwnEvent) -> dict[str, Any]:
    """`event` as a handler's templates read it."""
    error = event.error.readable() if event.error is not None else None
    result = event.data.get("result") if isinstance(event.data, dict) else None
    status = "error" if error else "success"
    return {
        "name": event.name,
        "step": event.step,
        "status": status,
        "data": event.data,
        "result": result,
        "error": error,
    }


def _outer(around: tuple[side_runs.Surrounding, ...]) -> tuple[Outer, ...]:
    return tuple(Outer(iterator=level.iterator, index=level.index, item=level.item) for level in around)


def claim_side_run(execution: Execution, run: StepRun, command: ClaimOrder) -> Decision:
    """Lease a side run to a worker under a new epoch. No token is claimed with it."""
    epoch = run.lease.lease_epoch + 1
    draft = Draft(execution, command.at, run.event_id)
    # The last worker was lost inside a task that must not run twice: whether it undid anything is unknown (SAGA-03).
    if run.progress.in_task and runs_once(execution, run):
        return _unknown(draft, run)
    claimed = side_runs.OrderClaimed(order_id=command.order_id, worker_id=command.worker_id, lease_epoch=epoch)
    draft.add(claimed, run=run)
    draft.add_effect(LeaseOrder(command.order_id, run.step_run_id, command.worker_id, epoch, pool=run.lease.pool))
    return draft.decision()


def runs_once(execution: Execution, run: StepRun) -> bool:
    """Whether a task of this side run must not start twice: it is a compensation that is not idempotent."""
    registration = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
    is_compensation = run.side_run is not None and run.side_run.kind is SideRunKind.COMPENSATION
    return is_compensation and registration is not None and not registration.idempotent


def _unknown(draft: Draft, run: StepRun) -> Decision:
    assert run.side_run is not None
    assert run.lease.order_id is not None
    reason = "its worker was lost while it ran, and it is not idempotent"
    draft.add(side_runs.CompensationUnknown(registration_id=run.side_run.of, reason=reason), run=run)
    draft.add_effect(CloseOrder(run.lease.order_id, run.step_run_id, run.lease.lease_epoch))
    return msgspec.structs.replace(draft.decision(), verdict=ReportResult.FENCED)


# A task with `spec.async`: its pipeline goes on at once, and the task runs as a side run (TOOL-12).


def start_async_task(
    draft: Draft,
    run: StepRun,
    step: Transition,
    entry: TaskProcessed,
    position: Position,
    *,
    event_id: str,
    outer: tuple[Outer, ...] = (),
    ctx: dict[str, Any] | None = None,
) -> None:
    """Start the asynchronous task of `entry` at the position of its pipeline. `ctx` is that of an iteration, which no
    other state has."""
    # Derived from the task run: a repeated report names the same side run and starts no second one.
    run_id = derived("async", entry.task_run_id)
    order_id = order_id_of(run_id)
    started = side_runs.AsyncStarted(
        owner=run.step_run_id,
        task=entry.task,
        task_run_id=entry.task_run_id,
        order_id=order_id,
        position=msgspec.structs.replace(
            position, task=entry.task, visit=1, attempt=1, runs=0, not_before=0.0, pages=()
        ),
        ctx=ctx or {},
        path=entry.path,
        around=tuple(
            side_runs.Surrounding(iterator=level.iterator, index=level.index, item=level.item) for level in outer
        ),
        tolerated=step.best_effort,
    )
    draft.add(
        started,
        step=run.step,
        step_run_id=run_id,
        task_run_id=entry.task_run_id,
        event_id=run_id,
        parent_id=event_id,
        on_behalf=True,
    )
    draft.add_effect(DispatchStep(order_id, run_id, pool=run.lease.pool))


# The end of side runs: reported by a worker, or stopped by the engine.


def record_end(draft: Draft, execution: Execution, run: StepRun, end: StepDone | StepFailed, *, ts: float) -> None:
    """Record the end of a side run that its worker reported. An interrupting handler ends its step with it."""
    side_run = run.side_run
    assert side_run is not None
    result = end.result if isinstance(end, StepDone) else TaskResult()
    error = end.error if isinstance(end, StepFailed) else None
    about: dict[str, Any] = {"run": run, "ts": ts, "parent_id": run.event_id}
    match side_run.kind:
        case SideRunKind.COMPENSATION if error is not None:
            draft.add(side_runs.CompensationFailed(registration_id=side_run.of, error=error), **about)
        case SideRunKind.COMPENSATION:
            draft.add(side_runs.CompensationDone(registration_id=side_run.of, result=result), **about)
        case SideRunKind.HANDLER:
            _end_handler(draft, execution, side_run, result, error, about)
        case SideRunKind.ASYNC:
            about |= {"source": EventSource.WORKER, "task_run_id": side_run.task_run_id}
            draft.add(_async_done(side_run, result=result, error=error), **about)


def _end_handler(
    draft: Draft,
    execution: Execution,
    side_run: SideRun,
    result: TaskResult,
    error: Error | None,
    about: dict[str, Any],
) -> None:
    if error is None:
        event = draft.add(side_runs.HandlerDone(owner=side_run.of, handler=side_run.index, result=result), **about)
    else:
        event = draft.add(side_runs.HandlerFailed(owner=side_run.of, handler=side_run.index, error=error), **about)
    owner = execution.runs.get(side_run.of)
    if not side_run.interrupting or owner is None:
        return
    assert side_run.event is not None
    ended = side_runs.StepInterrupted(event=side_run.event.name, data=side_run.event.data, result=result, error=error)
    draft.add(ended, run=owner, ts=about["ts"], parent_id=event.event_id)


def _async_done(side_run: SideRun, **end: Any) -> side_runs.AsyncDone:
    assert side_run.task_run_id is not None
    return side_runs.AsyncDone(
        task=side_run.task, task_run_id=side_run.task_run_id, tolerated=side_run.tolerated, **end
    )


def stop_side_runs(draft: Draft, execution: Execution, kinds: Iterable[SideRunKind], reason: str) -> None:
    """Stop all side runs of these kinds."""
    wanted = frozenset(kinds)
    for run_id in execution.side_work.step_runs:
        run = execution.runs[run_id]
        if run.side_run is not None and run.side_run.kind in wanted:
            _stop(draft, run, run.side_run, reason)


def stop_handlers(draft: Draft, execution: Execution, owner: str) -> None:
    """Stop the handlers of a step run that is withdrawn."""
    for run_id in execution.side_work.step_runs:
        run = execution.runs[run_id]
        if run.side_run is not None and run.side_run.kind is SideRunKind.HANDLER and run.side_run.of == owner:
            _stop(draft, run, run.side_run, "its step was withdrawn")


def _stop(draft: Draft, run: StepRun, side_run: SideRun, reason: str) -> None:
    event_id = derived(run.event_id, "stopped")
    if any(event.event_id == event_id for event in draft.events):
        return  # it was stopped with its step, in this same decision
    error = Error(kind="cancelled", message=reason)
    about: dict[str, Any] = {"run": run, "parent_id": run.event_id, "event_id": event_id}
    match side_run.kind:
        case SideRunKind.COMPENSATION:
            draft.add(side_runs.CompensationUnknown(registration_id=side_run.of, reason=reason), **about)
        case SideRunKind.HANDLER:
            draft.add(
                side_runs.HandlerFailed(owner=side_run.of, handler=side_run.index, error=error, stopped=True), **about
            )
        case SideRunKind.ASYNC:
            about |= {"on_behalf": True, "task_run_id": side_run.task_run_id}
            draft.add(_async_done(side_run, error=error, stopped=True), **about)
    assert run.lease.order_id is not None
    draft.add_effect(CloseOrder(run.lease.order_id, run.step_run_id, run.lease.lease_epoch))
