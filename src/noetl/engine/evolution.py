"""Evolution: how one event changes the state, and the only code that changes it (EVT-07, STYLE §2)."""

from __future__ import annotations

from typing import assert_never

from noetl.engine import case_evolution as cases
from noetl.engine import holding
from noetl.engine.execution import WITHDRAWN, Boundary, Due, Execution, StepRun, Token
from noetl.engine.loops import evolution as loops
from noetl.pipeline.patches import write
from noetl.pipeline.progress import after
from noetl.records.cases import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.records.control import (
    Emitted,
    JoinFilled,
    JoinUnfilled,
    PlaybookCancelled,
    PlaybookPaused,
    PlaybookResumed,
    TokenHeld,
)
from noetl.records.envelope import Event
from noetl.records.events import (
    CaseHeard,
    CaseStarted,
    CaseWaiting,
    CtxPatched,
    ExecutionRequested,
    KeychainRefreshed,
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
from noetl.records.loops import (
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopCut,
    LoopDone,
    LoopScheduled,
    LoopStarted,
)
from noetl.records.outcomes import Error, Status, TaskResult
from noetl.records.position import Position


def evolve(execution: Execution, event: Event) -> None:
    """Apply `event`, which must be the next one. O(1), whatever came before."""
    if event.seq != execution.seq + 1:
        raise LookupError(f"event {event.seq} cannot follow event {execution.seq} of {execution.execution_id}")
    if execution.listeners:
        cases.keep_for_listeners(execution, event)
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
            _token_dropped(execution, event, payload)
        case TokenHeld():
            holding.hold(execution, payload)
        case JoinFilled() | JoinUnfilled():
            holding.meet(execution, payload)
        case StepScheduled():
            _scheduled(execution, event, payload)
        case TokenClaimed():
            _claimed(execution, event, payload)
        case TaskProcessed():
            _processed(execution, execution.runs[_run_id(event)], payload, event.ts)
        case TaskStarted():
            _task_started(execution.runs[_run_id(event)], payload)
        case CaseStarted():
            cases.started(execution, execution.runs[_run_id(event)], payload)
        case CaseWaiting():
            cases.waiting(execution, execution.runs[_run_id(event)])
        case CaseHeard():
            cases.heard(execution, execution.runs[_run_id(event)], payload)
        case LoopStarted() | LoopScheduled() | IterationStarted() | IterationDone() | IterationFailed() | LoopCut():
            _looped(execution, event, payload)
        case LoopDone():
            _ended(execution, event, TaskResult(result=payload.results, ref=payload.ref), None)
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
        case PlaybookPaused() | PlaybookResumed():
            execution.paused = isinstance(payload, PlaybookPaused)
            cases.ask_listeners(execution)
        case PlaybookCancelled():
            execution.cancelled = payload.reason
        case PlaybookProcessed():
            execution.status, execution.finished_at = payload.status, event.ts
            _note_failure(execution, payload.error)  # of a request that was refused; else it is noted already
        case (
            RequestEvaluated()
            | StepDenied()
            | KeychainRefreshed()
            | NextEnqueued()
            | ReportRefused()
            | Emitted()
            | CaseEvaluated()
            | RetryStarted()
            | RetryProcessed()
            | SinkStarted()
            | SinkProcessed()
            | WorkflowFinished()
        ):
            pass  # told for the reader; the state follows from their neighbours
        case _:
            assert_never(payload)


def _run_id(event: Event) -> str:
    assert event.step_run_id is not None, f"{event.event_type} belongs to a step run"
    return event.step_run_id


def _requested(execution: Execution, payload: ExecutionRequested) -> None:
    execution.path, execution.version = payload.path, payload.version
    execution.net_hash, execution.request = payload.net_hash, payload.payload
    execution.parent_execution_id, execution.depth = payload.parent_execution_id, payload.depth
    execution.parent_step_run_id = payload.parent_step_run_id


def _token_created(execution: Execution, event: Event, payload: TokenCreated) -> None:
    parent = execution.runs.get(payload.parent_step_run_id or "")
    token = execution.tokens[payload.token_id] = Token(
        token_id=payload.token_id,
        step=payload.step,
        args=payload.args,
        event_id=event.event_id,
        source=parent.ended if parent else None,
        fork=payload.fork,
        priority=payload.priority,
        partition=payload.partition,
    )
    holding.enter(execution, token, opened_in=execution.tokens[parent.token_id].fork if parent else None)
    if payload.dedupe is not None:
        execution.deduped[payload.dedupe] = event.ts


def _token_dropped(execution: Execution, event: Event, payload: TokenDropped) -> None:
    """From wherever it was: on its way, held, or with a step run that nobody wants any more."""
    run = execution.runs.pop(_run_id(event), None)
    if run is not None:
        execution.listeners.pop(run.step_run_id, None)
        execution.agenda.pop(run.step_run_id, None)
        for order_id in run.loop.ranges if run.loop else (run.order_id,) if run.order_id and not run.ended else ():
            _close(execution, order_id, WITHDRAWN)
    execution.agenda.pop(payload.token_id, None)
    holding.leave(execution, execution.tokens.pop(payload.token_id))
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
    execution.runs_of[event.step] = execution.runs_of.get(event.step, 0) + 1
    execution.agenda.pop(payload.token_id, None)  # a parked one is admitted without having been due
    token = execution.tokens[payload.token_id]
    if payload.joins and not token.inputs:
        token.inputs = [token.as_input()]
    holding.take(execution, token, payload.slots)
    if payload.looped:
        return  # what follows is its loop's business
    if payload.order_id is None:
        execution.agenda[step_run_id] = Due.RUN
    else:
        execution.orders[payload.order_id] = step_run_id


def _claimed(execution: Execution, event: Event, payload: TokenClaimed) -> None:
    run = execution.runs[_run_id(event)]
    if run.loop is not None and payload.order_id is not None:
        loops.claimed(run.loop, payload.order_id, payload.worker_id, payload.lease_epoch)
        _ask_for_loop(execution, run)
    else:
        run.worker_id, run.lease_epoch = payload.worker_id, payload.lease_epoch


def _task_started(run: StepRun, payload: TaskStarted) -> None:
    if run.loop is None:
        run.in_task = True
    else:
        loops.in_task(run.loop, payload.path)


def _processed(execution: Execution, run: StepRun, payload: TaskProcessed, at: float) -> None:
    if run.loop is None:
        run.position, run.in_task = after(run.position, payload, at), False
        cases.note_listening(execution, run)
    else:
        loops.processed(run.loop, payload, at)
    if payload.decision.set_vars:
        write(run.vars, payload.decision.set_vars)
    for key, value in payload.decision.set_shared.items():
        run.shared.setdefault(key, []).append((payload.path, value))


def _looped(
    execution: Execution,
    event: Event,
    payload: LoopStarted | LoopScheduled | IterationStarted | IterationDone | IterationFailed | LoopCut,
) -> None:
    run = execution.runs[_run_id(event)]
    if isinstance(payload, LoopStarted):
        run.loop = loops.opened(run.loop, payload, event.event_id, execution.ctx)
    assert run.loop is not None
    match payload:
        case LoopScheduled():
            loops.scheduled(run.loop, payload)
            execution.orders[payload.order_id] = run.step_run_id
        case IterationStarted():
            loops.begun(run.loop, payload, run.position)
        case IterationDone() | IterationFailed():
            if ended := loops.ended(run.loop, payload):
                _close(execution, ended.order_id, ended.lease_epoch)
        case LoopCut():
            for span in loops.cut(run.loop, payload):
                _close(execution, span.order_id, WITHDRAWN)
    _ask_for_loop(execution, run)


def _ask_for_loop(execution: Execution, run: StepRun) -> None:
    assert run.loop is not None
    if run.loop.due or run.loop.failing:
        execution.agenda.setdefault(run.step_run_id, Due.LOOP)
    else:
        execution.agenda.pop(run.step_run_id, None)


def _close(execution: Execution, order_id: str, epoch: int) -> None:
    del execution.orders[order_id]
    execution.closed[order_id] = epoch


def _ended(execution: Execution, event: Event, result: TaskResult, error: Error | None) -> None:
    run = execution.runs[_run_id(event)]
    run.ended = Boundary(
        name=event.event_type,
        step=run.step,
        event_id=event.event_id,
        result=result,
        error=error,
        loop=event.payload if isinstance(event.payload, LoopDone) else None,
    )
    run.taken = cases.taken_in(run, error)
    execution.listeners.pop(run.step_run_id, None)
    execution.results[run.step] = result
    execution.agenda[run.step_run_id] = Due.ROUTE
    if run.order_id is not None:
        _close(execution, run.order_id, run.lease_epoch)
    if run.loop is not None:
        for order_id in run.loop.ranges:
            _close(execution, order_id, WITHDRAWN)
        run.loop = None


def _selected(execution: Execution, event: Event, payload: NextSelected) -> None:
    if payload.ended == "failed":
        _note_failure(execution, payload.error)
    elif payload.ended == "done":
        run = execution.runs[_run_id(event)]
        execution.ends.pop(run.step, None)  # the last finished one comes last (O-08)
        execution.ends[run.step] = execution.results[run.step]


def _consumed(execution: Execution, event: Event, payload: TokenConsumed) -> None:
    """With its step run, or in a join, where another token went on."""
    holding.leave(execution, execution.tokens.pop(payload.token_id))
    if execution.runs.pop(_run_id(event), None) is not None:
        del execution.agenda[_run_id(event)]
