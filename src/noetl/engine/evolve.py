"""Evolve: how one event changes the state of an execution.

This is the only entry to code that changes an `Execution` (EVT-07). `evolve` decides nothing and costs the same for
every event, however long the log is. The handlers of tokens, step runs, waits, side runs and case runs are in modules
of their own; `HANDLERS` finds the right one by the class of the payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never, get_args

from noetl.engine import concurrency_limits
from noetl.engine import step_evolution as steps
from noetl.engine import token_evolution as tokens
from noetl.engine.execution import DueTime, Execution, late_key
from noetl.engine.pipeline.patches import patched
from noetl.engine.side_runs import evolution as side_runs
from noetl.engine.v2_case import evolution as cases
from noetl.engine.waits import evolution as waits
from noetl.events import control, executions
from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.steps import CtxPatched, ReportRefused, StepDenied
from noetl.events.tokens import NextEnqueued
from noetl.events.v2_case_positions import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.events.waits import Waiting


def evolve(execution: Execution, event: Event) -> None:
    """Apply `event`, which must be the next one of the log, in constant time."""
    log = execution.log
    if event.seq != log.seq + 1:
        raise LookupError(f"event {event.seq} cannot follow event {log.seq} of {execution.execution_id}")
    # These two read the state before the event: whether a listener is free must not depend on the event itself.
    if execution.open_waits.listeners:
        cases.keep_for_listeners(execution, event)
    if execution.side_work.handlers:
        side_runs.keep_for_handlers(execution, event)
    payload = event.payload
    HANDLERS[type(payload)](execution, event, payload)
    # `seq` changes last: after an event that raises it shows the last event that was applied completely. The caller
    # drops the execution then, since it may be half changed.
    log.seq = event.seq
    log.last_event_id = event.event_id


def replay(execution_id: str, trace_id: str, events: list[Event]) -> Execution:
    """The state of an execution after all `events` of its log."""
    execution = Execution(execution_id=execution_id, trace_id=trace_id)
    for event in events:
        evolve(execution, event)
    return execution


_ExecutionEvent = (
    executions.ExecutionRequested
    | executions.WorkflowStarted
    | executions.PlaybookLate
    | CtxPatched
    | control.LimitChanged
    | control.PlaybookPaused
    | control.PlaybookResumed
    | control.PlaybookCancelled
    | control.Emitted
    | executions.PlaybookProcessed
    | ReportRefused
)
# Events for readers of the log. They change nothing: the events around them carry the state.
_INFORMATIVE = (
    *(executions.RequestEvaluated, StepDenied, NextEnqueued, CaseEvaluated),
    *(RetryStarted, RetryProcessed, SinkStarted, SinkProcessed, executions.WorkflowFinished),
)


def _on_execution_event(execution: Execution, event: Event, payload: _ExecutionEvent) -> None:
    """Apply an event about the execution as a whole."""
    match payload:
        case executions.ExecutionRequested():
            _on_requested(execution, event, payload)
        case executions.WorkflowStarted():
            execution.origin.workload, execution.origin.started_at = payload.workload, event.ts
        case executions.PlaybookLate():
            execution.open_waits.due_times.cancel(DueTime.LATE, late_key(payload.after_s))
        case CtxPatched():
            # A new mapping, never a change in place: a template such as `args: {before: "{{ ctx }}"}` may have put the
            # old mapping into the arguments of a token.
            variables = execution.variables
            variables.ctx = patched(variables.ctx, payload.patch)
            variables.written_by.update(dict.fromkeys(payload.patch, event.event_id))
            if event.step_run_id in execution.side_work.step_runs:
                side_runs.wrote(execution, event.step_run_id, payload.patch)
        case control.LimitChanged():
            concurrency_limits.change_limits(execution, event.step or "", payload)
        case control.PlaybookPaused() | control.PlaybookResumed():
            execution.lifecycle.paused = isinstance(payload, control.PlaybookPaused)
            cases.wake_listeners(execution)
        case control.PlaybookCancelled():
            execution.lifecycle.cancelled = payload.reason
            side_runs.on_cancelled(execution, payload)
        case control.Emitted():
            if payload.key is not None:
                execution.open_waits.known_keys[payload.key] = None
        case ReportRefused():
            execution.order_states.refused.add((payload.order_id, payload.lease_epoch, payload.worker_id))
        case executions.PlaybookProcessed():
            execution.lifecycle.status, execution.lifecycle.finished_at = payload.status, event.ts
            # Only a refused request has its error here; any other failure was noted when it happened.
            tokens.note_failure(execution, payload.error)
        case _:
            assert_never(payload)


def _on_requested(execution: Execution, event: Event, payload: executions.ExecutionRequested) -> None:
    execution.origin.path, execution.origin.version = payload.path, payload.version
    execution.origin.net_hash, execution.origin.request = payload.net_hash, payload.payload
    execution.origin.parent_execution_id, execution.origin.depth = payload.parent_execution_id, payload.depth
    execution.origin.parent_step_run_id, execution.origin.compensates = payload.parent_step_run_id, payload.compensates
    for after_s in payload.late_after_s:
        execution.open_waits.due_times.set(DueTime.LATE, late_key(after_s), event.ts + after_s)
    if (carried := payload.carried) is not None:
        execution.variables.ctx = dict(carried.ctx)
        execution.variables.written_by = dict.fromkeys(carried.ctx, event.event_id)
        execution.outputs.results = {one.step: one.result for one in carried.results}
        execution.outputs.kept_iterations = carried.kept


def _on_side_run_event(execution: Execution, event: Event, payload: side_runs.SideRunEvent) -> None:
    tokens.note_failure(execution, side_runs.on_side_run_event(execution, event, payload))


def _ignore(execution: Execution, event: Event, payload: Payload) -> None:
    """Change nothing."""


# One lookup by class. A `match` over eighty classes would test them one after another for every event.
HANDLERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    **tokens.TOKEN_HANDLERS,
    **steps.STEP_HANDLERS,
    **dict.fromkeys(get_args(cases.CaseEvent), cases.on_case_event),
    **dict.fromkeys(get_args(Waiting), waits.on_wait_event),
    **dict.fromkeys(get_args(side_runs.SideRunEvent), _on_side_run_event),
    **dict.fromkeys(get_args(_ExecutionEvent), _on_execution_event),
    **dict.fromkeys(_INFORMATIVE, _ignore),
}
