"""What a worker needs to run a side run: which tasks of the step, and what their templates read (WRK-04)."""

from __future__ import annotations

from typing import Any

from noetl.engine.execution import Execution, StepRun
from noetl.engine.side_runs.claims import is_once
from noetl.engine.side_runs.state import SideRunKind
from noetl.events.cases import OwnEvent
from noetl.events.compensation import CompensationRegistered, Surrounding
from noetl.events.orders import Outer, SideRunOrder


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
