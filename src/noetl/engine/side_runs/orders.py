"""Orders of side runs: how one is claimed, and what a worker needs to run it (WRK-04). Also how a task with
`spec.async` becomes one."""

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
from noetl.events.orders import Outer, Position, ReportResult, SideRunOrder
from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import EventSource
from noetl.events.side_runs import (
    AsyncDone,
    AsyncStarted,
    CompensationDone,
    CompensationFailed,
    CompensationRegistered,
    CompensationUnknown,
    HandlerDone,
    HandlerFailed,
    OrderClaimed,
    StepInterrupted,
    Surrounding,
)
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_positions import OwnEvent
from noetl.net.net import Transition


def side_run_of(execution: Execution, run: StepRun) -> dict[str, Any]:
    """Those fields of the order that a side run has in its own way."""
    side_run = run.side_run
    if side_run is None:
        return {}
    match side_run.kind:
        case SideRunKind.COMPENSATION:
            registration = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
            assert registration is not None, "a compensation is run while it is under way"
            return _compensation(execution, run, registration)
        case SideRunKind.HANDLER:
            assert side_run.event is not None
            part = f"handlers/{side_run.index}"
            return {"side_run": SideRunOrder(part=part, names={"event": event_names(side_run.event)})}
        case SideRunKind.ASYNC:
            own = SideRunOrder(part="tasks", outer=_outer(side_run.around), task_run_id=side_run.task_run_id)
            return {"side_run": own, "ctx": dict(execution.ctx if run.ctx is None else run.ctx)}


def _compensation(execution: Execution, run: StepRun, registration: CompensationRegistered) -> dict[str, Any]:
    own = SideRunOrder(
        part="compensation",
        result=registration.result,
        outer=_outer(registration.around),
        once=is_once(execution, run),
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


def _outer(around: tuple[Surrounding, ...]) -> tuple[Outer, ...]:
    return tuple(Outer(iterator=one.iterator, index=one.index, item=one.item) for one in around)


# Claiming a side run: like any order, but that no token moves, and that what must not be repeated is not (SAGA-03).
def claim_side_run(execution: Execution, run: StepRun, command: ClaimOrder) -> Decision:
    """Give it to a worker under a new epoch. Whoever held it before is gone."""
    epoch = run.lease.lease_epoch + 1
    draft = Draft(execution, command.at, run.event_id)
    if run.in_task and is_once(execution, run):
        return _unknown(draft, run)
    claimed = OrderClaimed(order_id=command.order_id, worker_id=command.worker_id, lease_epoch=epoch)
    draft.add(claimed, run=run)
    draft.add_effect(LeaseOrder(command.order_id, run.step_run_id, command.worker_id, epoch, pool=run.lease.pool))
    return draft.decision()


def is_once(execution: Execution, run: StepRun) -> bool:
    """Whether what had begun of it is never begun again."""
    registration = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
    is_compensation = run.side_run is not None and run.side_run.kind is SideRunKind.COMPENSATION
    return is_compensation and registration is not None and not registration.idempotent


def _unknown(draft: Draft, run: StepRun) -> Decision:
    assert run.side_run is not None
    assert run.lease.order_id is not None
    reason = "its worker was lost while it ran, and it is not idempotent"
    draft.add(CompensationUnknown(registration_id=run.side_run.of, reason=reason), run=run)
    draft.add_effect(CloseOrder(run.lease.order_id, run.step_run_id, run.lease.lease_epoch))
    return msgspec.structs.replace(draft.decision(), verdict=ReportResult.FENCED)


# A task with `spec.async` was accepted by its pipeline and runs beside it, as a side run (TOOL-12).


def defer(
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
    """Begin what `entry` accepted, from where its pipeline stood. An iteration's `ctx` is its own, so it is kept."""
    # From the task run: a report that is repeated names the same side run, and begins no second one.
    run_id = derived("async", entry.task_run_id)
    order_id = order_id_of(run_id)
    started = AsyncStarted(
        owner=run.step_run_id,
        task=entry.task,
        task_run_id=entry.task_run_id,
        order_id=order_id,
        position=msgspec.structs.replace(
            position, task=entry.task, visit=1, attempt=1, runs=0, not_before=0.0, pages=()
        ),
        ctx=ctx or {},
        path=entry.path,
        around=tuple(Surrounding(iterator=one.iterator, index=one.index, item=one.item) for one in outer),
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


# The end of side runs: what becomes of a worker's report of one, and of those that nobody wants any more.


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
