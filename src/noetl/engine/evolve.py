"""How one event changes the state, and the only code that changes it (EVT-07, docs/style.md §2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never, get_args

from noetl.engine import concurrency_limits
from noetl.engine import step_evolution as steps
from noetl.engine import token_evolution as tokens
from noetl.engine.due_times import DueTime, late_key
from noetl.engine.execution import Execution
from noetl.engine.pipeline.patches import written
from noetl.engine.side_runs import evolution as side_runs
from noetl.engine.v2_case import evolution as cases
from noetl.engine.waits import evolution as waits
from noetl.events import executions
from noetl.events.control import (
    Emitted,
    LimitChanged,
    PlaybookCancelled,
    PlaybookPaused,
    PlaybookResumed,
)
from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.steps import CtxPatched, ReportRefused, StepDenied
from noetl.events.tokens import NextEnqueued
from noetl.events.v2_case_positions import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.events.waits import Waiting


def evolve(execution: Execution, event: Event) -> None:
    """Apply `event`, which must be the next one. O(1), whatever came before."""
    if event.seq != execution.seq + 1:
        raise LookupError(f"event {event.seq} cannot follow event {execution.seq} of {execution.execution_id}")
    # Before the event is applied: whether a listener is free is judged by the state that the event came to.
    if execution.open_waits.listeners:
        cases.keep_for_listeners(execution, event)
    if execution.side_work.handlers:
        side_runs.keep_for_handlers(execution, event)
    payload = event.payload
    HANDLERS[type(payload)](execution, event, payload)
    # Last: an event that raises leaves `seq` where it was. The caller drops the execution then, as it may be half
    # changed.
    execution.seq = event.seq
    execution.last_event_id = event.event_id


def replayed(execution_id: str, trace_id: str, events: list[Event]) -> Execution:
    """The state that a log tells."""
    execution = Execution(execution_id=execution_id, trace_id=trace_id)
    for event in events:
        evolve(execution, event)
    return execution


_Whole = (
    executions.ExecutionRequested
    | executions.WorkflowStarted
    | executions.PlaybookLate
    | CtxPatched
    | LimitChanged
    | PlaybookPaused
    | PlaybookResumed
    | PlaybookCancelled
    | Emitted
    | executions.PlaybookProcessed
    | ReportRefused
)
_TOLD = (  # for the reader; the state follows from their neighbours
    *(executions.RequestEvaluated, StepDenied, NextEnqueued, CaseEvaluated),
    *(RetryStarted, RetryProcessed, SinkStarted, SinkProcessed, executions.WorkflowFinished),
)


def _follow(execution: Execution, event: Event, payload: _Whole) -> None:
    """What concerns the execution as a whole."""
    match payload:
        case executions.ExecutionRequested():
            _requested(execution, event, payload)
        case executions.WorkflowStarted():
            execution.origin.workload, execution.origin.started_at = payload.workload, event.ts
        case executions.PlaybookLate():
            execution.open_waits.due_times.cancel(DueTime.LATE, late_key(payload.after_s))
        case CtxPatched():
            # A new mapping: templates gave the old one away as it was (`args: {was: "{{ ctx }}"}`), and it stays so.
            execution.ctx = written(execution.ctx, payload.patch)
            execution.written_by.update(dict.fromkeys(payload.patch, event.event_id))
            if event.step_run_id in execution.side_work.step_runs:
                side_runs.wrote(execution, event.step_run_id, payload.patch)
        case LimitChanged():
            concurrency_limits.change(execution, event.step or "", payload)
        case PlaybookPaused() | PlaybookResumed():
            execution.lifecycle.paused = isinstance(payload, PlaybookPaused)
            cases.ask_listeners(execution)
        case PlaybookCancelled():
            execution.lifecycle.cancelled = payload.reason
            side_runs.cancelled(execution, payload)
        case Emitted():
            if payload.key is not None:
                execution.open_waits.known_keys[payload.key] = None
        case ReportRefused():
            execution.order_states.refused.add((payload.order_id, payload.lease_epoch, payload.worker_id))
        case executions.PlaybookProcessed():
            execution.lifecycle.status, execution.lifecycle.finished_at = payload.status, event.ts
            tokens.note_failure(execution, payload.error)  # of a request that was refused; else it is noted already
        case _:
            assert_never(payload)


def _requested(execution: Execution, event: Event, payload: executions.ExecutionRequested) -> None:
    execution.origin.path, execution.origin.version = payload.path, payload.version
    execution.origin.net_hash, execution.origin.request = payload.net_hash, payload.payload
    execution.origin.parent_execution_id, execution.origin.depth = payload.parent_execution_id, payload.depth
    execution.origin.parent_step_run_id, execution.origin.compensates = payload.parent_step_run_id, payload.compensates
    for after_s in payload.late_after_s:
        execution.open_waits.due_times.set(DueTime.LATE, late_key(after_s), event.ts + after_s)
    if (carried := payload.carried) is not None:
        execution.ctx = dict(carried.ctx)
        execution.written_by = dict.fromkeys(carried.ctx, event.event_id)
        execution.outputs.results = {one.step: one.result for one in carried.results}
        execution.outputs.kept_iterations = carried.kept


def _follow_side_run(execution: Execution, event: Event, payload: side_runs.Own) -> None:
    tokens.note_failure(execution, side_runs.evolve(execution, event, payload))


def _pass_by(execution: Execution, event: Event, payload: Payload) -> None:
    """Nothing changes."""


# Every event has a room that follows it, found by its class: there are too many to ask for one after the other.
HANDLERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    **tokens.FOLLOWERS,
    **steps.FOLLOWERS,
    **dict.fromkeys(get_args(cases.Hearing), cases.follow),
    **dict.fromkeys(get_args(Waiting), waits.follow),
    **dict.fromkeys(get_args(side_runs.Own), _follow_side_run),
    **dict.fromkeys(get_args(_Whole), _follow),
    **dict.fromkeys(_TOLD, _pass_by),
}
