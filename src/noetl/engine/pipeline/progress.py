"""Progress: the position of a pipeline after each processed task (PIPE-02 to PIPE-07).

The worker moves by these functions while it runs, and the engine folds the same events with them; so a re-dispatched
order begins exactly where the log says.
"""

from __future__ import annotations

import msgspec

from noetl.base.ids import derived
from noetl.engine.pipeline.patches import patched
from noetl.events.orders import Position
from noetl.events.outcomes import Error, TaskResult
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import Decided, TaskProcessed
from noetl.net.task import Directive

MAX_TASK_RUNS = 100_000  # default of executor.spec.policy.limits.max_task_runs (O-33)


def task_run_id(step_run_id: str, position: Position, path: tuple[int, ...] = ()) -> str:
    """The identity of the task run that comes next; a repeated one after a lost lease keeps it (O-05)."""
    # Not from the lease: a task that is run again by another worker has the same id, which is its idempotency key.
    return derived(step_run_id, *path, position.visit, position.attempt)


def position_after(position: Position, processed: TaskProcessed, at: float) -> Position:
    """The position of the pipeline after `processed` is recorded."""
    decision, outcome = processed.decision, processed.outcome
    result = outcome.as_result()
    again = decision.do == Directive.RETRY
    return Position(
        task=decision.next,
        visit=position.visit if again else position.visit + 1,
        attempt=position.attempt + 1 if again else 1,  # counters belong to one visit (POL-09)
        runs=position.runs + 1,
        not_before=at + decision.delay_s if decision.delay_s else 0.0,
        iter=patched(position.iter, decision.set_iter) if decision.set_iter else position.iter,
        prev=_prev_after(position, processed, result),
        results={**position.results, processed.task: result},
        case=decision.case.position if decision.case else None,
        pages=(*position.pages, result) if decision.case and decision.case.keeps_page else position.pages,
    )


def position_after_entry(position: Position, decision: Decided) -> Position:
    """The position of a case run after its entry is recorded (V2C-06)."""
    assert decision.case is not None
    return msgspec.structs.replace(position, task=decision.next, case=decision.case.position)


def _prev_after(position: Position, processed: TaskProcessed, result: TaskResult) -> TaskResult | None:
    """`_prev` is null after a task that went on in spite of its error (PIPE-06); v2-eval may set it (V2E-08)."""
    decision = processed.decision
    if decision.set_prev is not msgspec.UNSET:
        return TaskResult(result=decision.set_prev)
    if decision.do == Directive.RETRY or processed.keeps_prev:
        return position.prev
    return None if result.error else result


def budget_error(position: Position, limit: int) -> Error | None:
    """Why no further task may run here, if none may (PIPE-07)."""
    if position.runs < limit:
        return None
    message = f"this pipeline has had {limit} task runs, the limit that executor.spec.policy.limits.max_task_runs sets"
    return Error(kind="pipeline.budget", message=message)


def pipeline_end(position: Position, decision: Decided) -> StepDone | StepFailed | None:
    """How the step run ends at `position`, None while there is a task to run. The result is `_prev` (PIPE-09)."""
    if decision.error is not None:
        return StepFailed(error=decision.error)
    if position.task is not None:
        return None
    return StepDone(result=position.prev or TaskResult())
