"""Evolution: how one event changes the state, and the only code that changes it (EVT-07, STYLE §2)."""

from __future__ import annotations

from noetl.engine import case_evolution as cases
from noetl.engine import holding
from noetl.engine import step_evolution as steps
from noetl.engine.errands import evolution as errands
from noetl.engine.execution import WITHDRAWN, Due, Execution, StepRun, Token
from noetl.engine.waits import evolution as waits
from noetl.pipeline.patches import write
from noetl.records.case_runs import CaseHeard, CaseStarted, CaseWaiting
from noetl.records.cases import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.records.control import (
    Emitted,
    JoinFilled,
    JoinUnfilled,
    LimitChanged,
    PlaybookCancelled,
    PlaybookPaused,
    PlaybookResumed,
    TokenHeld,
)
from noetl.records.envelope import Event
from noetl.records.errands import StepInterrupted
from noetl.records.executions import (
    ExecutionRequested,
    PlaybookProcessed,
    RequestEvaluated,
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
from noetl.records.routing import NextEnqueued, NextSelected
from noetl.records.steps import CtxPatched, ReportRefused, StepDenied, StepDone, StepFailed, StepScheduled, StepStarted
from noetl.records.tasks import KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.records.tokens import TokenClaimed, TokenConsumed, TokenCreated, TokenDropped, TokenEnqueued
from noetl.records.waits import StepTimeout, TokenReleased, Waiting


def evolve(execution: Execution, event: Event) -> None:
    """Apply `event`, which must be the next one. O(1), whatever came before."""
    if event.seq != execution.seq + 1:
        raise LookupError(f"event {event.seq} cannot follow event {execution.seq} of {execution.execution_id}")
    if execution.listeners:
        cases.keep_for_listeners(execution, event)
    if execution.handling:
        errands.keep_for_handlers(execution, event)
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
            _requested(execution, event, payload)
        case WorkflowStarted():
            execution.workload, execution.started_at = payload.workload, event.ts
        case TokenCreated():
            _token_created(execution, event, payload)
        case TokenEnqueued():
            execution.agenda[payload.token_id] = Due.ADMIT
        case TokenDropped():
            _token_dropped(execution, event, payload)
        case TokenHeld():
            holding.hold(execution, payload, event.ts)
        case TokenReleased():
            holding.release(execution, payload)
        case JoinFilled() | JoinUnfilled():
            holding.meet(execution, payload)
        case StepScheduled():
            steps.scheduled(execution, event, payload)
        case TokenClaimed():
            steps.claimed(execution, event, payload)
        case TaskProcessed():
            steps.processed(execution, execution.runs[steps.run_id_in(event)], payload, event.ts)
        case TaskStarted():
            steps.task_started(execution.runs[steps.run_id_in(event)], payload)
        case CaseStarted():
            cases.started(execution, execution.runs[steps.run_id_in(event)], payload)
        case CaseWaiting():
            cases.waiting(execution, execution.runs[steps.run_id_in(event)])
        case CaseHeard():
            cases.heard(execution, execution.runs[steps.run_id_in(event)], payload)
        case LoopStarted() | LoopScheduled() | IterationStarted() | IterationDone() | IterationFailed() | LoopCut():
            steps.looped(execution, event, payload)
        case LoopDone():
            steps.ended(execution, event, TaskResult(result=payload.results, ref=payload.ref), None)
        case StepStarted():
            steps.started(execution, execution.runs[steps.run_id_in(event)], event.ts)
        case CtxPatched():
            write(execution.ctx, payload.patch)
            execution.written_by.update(dict.fromkeys(payload.patch, event.event_id))
            if event.step_run_id in execution.errands:
                errands.wrote(execution, event.step_run_id, payload.patch)
        case StepDone():
            steps.ended(execution, event, payload.result, None)
        case StepFailed():
            steps.ended(execution, event, TaskResult(status=Status.ERROR, error=payload.error), payload.error)
        case NextSelected():
            _selected(execution, event, payload)
        case TokenConsumed():
            _consumed(execution, event, payload)
        case LimitChanged():
            holding.change(execution, event.step or "", payload)
        case PlaybookPaused() | PlaybookResumed():
            execution.paused = isinstance(payload, PlaybookPaused)
            cases.ask_listeners(execution)
        case PlaybookCancelled():
            execution.cancelled = payload.reason
            errands.cancelled(execution, payload)
        case StepInterrupted():
            steps.interrupted(execution, event, payload)
        case StepTimeout():
            steps.timed_out(execution, event, payload)
        case Emitted():
            if payload.key is not None:
                execution.known[payload.key] = None
        case PlaybookProcessed():
            execution.status, execution.finished_at = payload.status, event.ts
            _note_failure(execution, payload.error)  # of a request that was refused; else it is noted already
        case (
            RequestEvaluated()
            | StepDenied()
            | KeychainRefreshed()
            | NextEnqueued()
            | ReportRefused()
            | CaseEvaluated()
            | RetryStarted()
            | RetryProcessed()
            | SinkStarted()
            | SinkProcessed()
            | WorkflowFinished()
        ):
            pass  # told for the reader; the state follows from their neighbours
        case _ if isinstance(payload, Waiting):
            waits.follow(execution, event, payload)
        case _:
            _note_failure(execution, errands.evolve(execution, event, payload))


def _requested(execution: Execution, event: Event, payload: ExecutionRequested) -> None:
    execution.path, execution.version = payload.path, payload.version
    execution.net_hash, execution.request = payload.net_hash, payload.payload
    execution.parent_execution_id, execution.depth = payload.parent_execution_id, payload.depth
    execution.parent_step_run_id, execution.compensates = payload.parent_step_run_id, payload.compensates
    if (carried := payload.carried) is not None:
        execution.ctx = dict(carried.ctx)
        execution.written_by = dict.fromkeys(carried.ctx, event.event_id)
        execution.results = {one.step: one.result for one in carried.results}


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
    run = execution.runs.pop(steps.run_id_in(event), None)
    if run is not None:
        execution.listeners.pop(run.step_run_id, None)
        errands.forget_handlers(execution, run.step_run_id)
        execution.agenda.pop(run.step_run_id, None)
        for order_id in run.loop.ranges if run.loop else (run.order_id,) if run.order_id and not run.ended else ():
            steps.close(execution, order_id, WITHDRAWN)
        waits.forget(execution, run, event.ts)
    execution.agenda.pop(payload.token_id, None)
    holding.leave(execution, execution.tokens.pop(payload.token_id))
    _note_failure(execution, payload.error)


def _note_failure(execution: Execution, error: Error | None) -> None:
    if execution.error is None:  # the execution ends with the first one (ROUTE-08)
        execution.error = error


def _selected(execution: Execution, event: Event, payload: NextSelected) -> None:
    if payload.ended == "failed":
        _note_failure(execution, payload.error)
    elif payload.ended == "done":
        for step in _givers(execution, execution.runs[steps.run_id_in(event)]):
            execution.ends.pop(step, None)  # the last finished one comes last (O-08)
            execution.ends[step] = execution.results[step]


def _givers(execution: Execution, run: StepRun) -> list[str]:
    """Whose results the end of a token leaves: its last step's. A terminal place has none of its own (DOC-11, C-40),
    so whatever led to it speaks, if that had something to say."""
    token = execution.tokens[run.token_id]
    if not run.bare or run.armed or _gave(execution.results[run.step]):
        return [run.step]
    sources = [str(one["from"]) for one in token.inputs] or [token.source.step if token.source else ""]
    return [step for step in sources if step in execution.results and _gave(execution.results[step])] or [run.step]


def _gave(result: TaskResult) -> bool:
    return result.status is Status.SUCCESS and (result.result is not None or result.ref is not None)


def _consumed(execution: Execution, event: Event, payload: TokenConsumed) -> None:
    """With its step run, or in a join, where another token went on."""
    holding.leave(execution, execution.tokens.pop(payload.token_id))
    if (run := execution.runs.pop(steps.run_id_in(event), None)) is not None:
        waits.forget(execution, run, event.ts)
        errands.forget_handlers(execution, run.step_run_id)
        del execution.agenda[steps.run_id_in(event)]
