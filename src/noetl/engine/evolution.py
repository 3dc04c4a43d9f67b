"""Evolution: how one event changes the state, and the only code that changes it (EVT-07, STYLE §2)."""

from __future__ import annotations

from typing import assert_never

from noetl.engine.execution import Boundary, Due, Execution, StepRun, Token
from noetl.pipeline.patches import write
from noetl.pipeline.progress import after
from noetl.records.envelope import Event
from noetl.records.events import (
    CtxPatched,
    ExecutionRequested,
    NextEnqueued,
    NextSelected,
    PlaybookProcessed,
    ReportRefused,
    RequestEvaluated,
    StepDenied,
    StepDone,
    StepFailed,
    StepScheduled,
    StepStarted,
    TaskProcessed,
    TaskStarted,
    TokenClaimed,
    TokenConsumed,
    TokenCreated,
    TokenDropped,
    TokenEnqueued,
    WorkflowFinished,
    WorkflowStarted,
)
from noetl.records.outcomes import Error, Status, TaskResult
from noetl.records.position import Position


def evolve(execution: Execution, event: Event) -> None:
    """Apply `event`, which must be the next one. O(1), whatever came before."""
    if event.seq != execution.seq + 1:
        raise LookupError(f"event {event.seq} cannot follow event {execution.seq} of {execution.execution_id}")
    _apply(execution, event)
    execution.seq = event.seq
    execution.last_event_id = event.event_id


def replayed(execution_id: str, trace_id: str, events: list[Event]) -> Execution:
    """The state that a log tells."""
    execution = Execution(execution_id=execution_id, trace_id=trace_id)
    for event in events:
        evolve(execution, event)
    return execution


def _apply(execution: Execution, event: Event) -> None:
    payload = event.payload
    match payload:
        case ExecutionRequested():
            _requested(execution, payload)
        case WorkflowStarted():
            execution.workload, execution.started_at = payload.workload, event.ts
        case TokenCreated():
            _token_created(execution, event, payload)
        case TokenEnqueued():
            execution.agenda[payload.token_id] = Due.ADMIT
        case TokenDropped():
            _token_dropped(execution, payload)
        case StepScheduled():
            _scheduled(execution, event, payload)
        case TokenClaimed():
            _claimed(execution, event, payload)
        case TaskProcessed():
            run = execution.runs[_run_id(event)]
            run.position, run.in_task = after(run.position, payload, event.ts), False
        case TaskStarted():
            execution.runs[_run_id(event)].in_task = True
        case StepStarted():
            execution.runs[_run_id(event)].started_at = event.ts
        case CtxPatched():
            write(execution.ctx, payload.patch)
            execution.written_by.update(dict.fromkeys(payload.patch, event.event_id))
        case StepDone():
            _ended(execution, event, payload.result, None)
        case StepFailed():
            _ended(execution, event, TaskResult(status=Status.ERROR, error=payload.error), payload.error)
        case NextSelected():
            _selected(execution, event, payload)
        case TokenConsumed():
            _consumed(execution, event, payload)
        case PlaybookProcessed():
            execution.status, execution.finished_at = payload.status, event.ts
        case RequestEvaluated() | StepDenied() | NextEnqueued() | ReportRefused() | WorkflowFinished():
            pass  # told for the reader; the state follows from their neighbours
        case _:
            assert_never(payload)


def _run_id(event: Event) -> str:
    assert event.step_run_id is not None, f"{event.event_type} belongs to a step run"
    return event.step_run_id


def _requested(execution: Execution, payload: ExecutionRequested) -> None:
    execution.path, execution.version = payload.path, payload.version
    execution.net_hash, execution.request = payload.net_hash, payload.payload


def _token_created(execution: Execution, event: Event, payload: TokenCreated) -> None:
    parent = execution.runs.get(payload.parent_step_run_id or "")
    execution.tokens[payload.token_id] = Token(
        token_id=payload.token_id,
        step=payload.step,
        args=payload.args,
        event_id=event.event_id,
        source=parent.ended if parent else None,
    )


def _token_dropped(execution: Execution, payload: TokenDropped) -> None:
    del execution.tokens[payload.token_id]
    del execution.agenda[payload.token_id]
    _note_failure(execution, payload.error)


def _note_failure(execution: Execution, error: Error | None) -> None:
    if execution.error is None:  # the execution ends with the first one (ROUTE-08)
        execution.error = error


def _scheduled(execution: Execution, event: Event, payload: StepScheduled) -> None:
    step_run_id = _run_id(event)
    assert event.step is not None
    execution.runs[step_run_id] = StepRun(
        step_run_id=step_run_id,
        token_id=payload.token_id,
        step=event.step,
        args=payload.args,
        token_meta=payload.token_meta,
        event_id=event.event_id,
        position=Position(task=payload.task),
        order_id=payload.order_id,
        timeout_s=payload.timeout_s,
        deadline_s=payload.deadline_s,
    )
    execution.step_runs += 1
    del execution.agenda[payload.token_id]
    if payload.order_id is None:
        execution.agenda[step_run_id] = Due.RUN
    else:
        execution.orders[payload.order_id] = step_run_id


def _claimed(execution: Execution, event: Event, payload: TokenClaimed) -> None:
    run = execution.runs[_run_id(event)]
    run.worker_id, run.lease_epoch = payload.worker_id, payload.lease_epoch


def _ended(execution: Execution, event: Event, result: TaskResult, error: Error | None) -> None:
    run = execution.runs[_run_id(event)]
    run.ended = Boundary(name=event.event_type, step=run.step, event_id=event.event_id, result=result, error=error)
    execution.results[run.step] = result
    execution.agenda[run.step_run_id] = Due.ROUTE
    if run.order_id is not None:
        del execution.orders[run.order_id]
        execution.closed[run.order_id] = run.lease_epoch


def _selected(execution: Execution, event: Event, payload: NextSelected) -> None:
    if payload.ended == "failed":
        _note_failure(execution, payload.error)
    elif payload.ended == "done":
        run = execution.runs[_run_id(event)]
        execution.ends.pop(run.step, None)  # the last finished one comes last (O-08)
        execution.ends[run.step] = execution.results[run.step]


def _consumed(execution: Execution, event: Event, payload: TokenConsumed) -> None:
    del execution.tokens[payload.token_id]
    del execution.runs[_run_id(event)]
    del execution.agenda[_run_id(event)]
