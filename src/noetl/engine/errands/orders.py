"""What a worker needs to run an errand: which tasks of the step, and what their templates read (WRK-04)."""

from __future__ import annotations

from typing import Any

from noetl.engine.errands.claiming import is_once
from noetl.engine.errands.state import ErrandKind
from noetl.engine.execution import Execution, StepRun
from noetl.records.cases import OwnEvent
from noetl.records.compensation import CompensationRegistered, Surrounding
from noetl.records.orders import Errand, Outer


def errand_of(execution: Execution, run: StepRun) -> dict[str, Any]:
    """Those fields of the order that an errand has in its own way."""
    errand = run.errand
    if errand is None:
        return {}
    match errand.kind:
        case ErrandKind.COMPENSATION:
            registration = execution.saga.under_way if execution.saga is not None else None
            assert registration is not None, "a compensation is run while it is under way"
            return _compensation(execution, run, registration)
        case ErrandKind.HANDLER:
            assert errand.event is not None
            part = f"handlers/{errand.index}"
            return {"errand": Errand(part=part, names={"event": event_names(errand.event)})}
        case ErrandKind.ASYNC:
            own = Errand(part="tasks", outer=_outer(errand.around), task_run_id=errand.task_run_id)
            return {"errand": own, "ctx": dict(execution.ctx if run.ctx is None else run.ctx)}


def _compensation(execution: Execution, run: StepRun, registration: CompensationRegistered) -> dict[str, Any]:
    own = Errand(
        part="compensation",
        result=registration.result,
        outer=_outer(registration.around),
        once=is_once(execution, run),
        child=registration.child,
        job_id=registration.job_id,
    )
    assert run.ctx is not None, "a compensation has a ctx of its own"
    return {"errand": own, "ctx": dict(run.ctx), "results": registration.results}


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
