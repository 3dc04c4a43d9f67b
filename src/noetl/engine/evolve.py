"""Evolve: how one event changes the state of an execution.

This is the only entry to code that changes an `Execution` (EVT-07). `evolve` decides nothing and costs the same for
every event, however long the log is. The handlers of step runs, waits, side runs and case runs are in modules of
their own, those of tokens are here; `HANDLERS` finds the right one by the class of the payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never, get_args

from noetl.engine import concurrency_limits
from noetl.engine import step_evolution as steps
from noetl.engine.execution import WITHDRAWN, Due, DueTime, Execution, StepRun, Token, late_key
from noetl.engine.pipeline.patches import patched
from noetl.engine.side_runs import evolution as side_runs
from noetl.engine.v2_case import evolution as cases
from noetl.engine.waits import evolution as waits
from noetl.events import control, executions
from noetl.events.control import JoinFilled, JoinUnfilled, TokenHeld
from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.outcomes import Error, Status, TaskResult
from noetl.events.steps import CtxPatched, ReportRefused, StepDenied
from noetl.events.tokens import NextEnqueued, NextSelected, TokenConsumed, TokenCreated, TokenDropped, TokenEnqueued
from noetl.events.v2_case_positions import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.events.waits import TokenReleased, Waiting


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
            execution.lifecycle.late = True
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
            note_failure(execution, payload.error)
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
    note_failure(execution, side_runs.on_side_run_event(execution, event, payload), event.step)


def _ignore(execution: Execution, event: Event, payload: Payload) -> None:
    """Change nothing."""


def _on_enqueued(execution: Execution, event: Event, payload: TokenEnqueued) -> None:
    execution.agenda[payload.token_id] = Due.ADMIT


def _on_held(execution: Execution, event: Event, payload: TokenHeld) -> None:
    concurrency_limits.hold_token(execution, payload, event.ts)


def _on_released(execution: Execution, event: Event, payload: TokenReleased) -> None:
    concurrency_limits.release_token(execution, payload, event.ts)


def _on_joined(execution: Execution, event: Event, payload: JoinFilled | JoinUnfilled) -> None:
    concurrency_limits.merge_tokens(execution, payload)


def _on_created(execution: Execution, event: Event, payload: TokenCreated) -> None:
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
    if token.fork is not None:
        opened_in = execution.tokens[parent.token.token_id].fork if parent else None
        concurrency_limits.enter_fork(execution, token, token.fork, opened_in=opened_in)
    if payload.dedupe is not None:
        execution.held.deduped[payload.dedupe] = event.ts


def _on_dropped(execution: Execution, event: Event, payload: TokenDropped) -> None:
    """Remove a token, wherever it is: on its way, held, or with a step run."""
    run = execution.runs.pop(steps.run_id_in(event), None)
    if run is not None:
        execution.open_waits.listeners.pop(run.step_run_id, None)
        side_runs.forget_handlers(execution, run.step_run_id)
        execution.agenda.pop(run.step_run_id, None)
        if run.loop is not None:
            execution.counts.failed_iterations.end_loop(run.step, run.loop.unrun)
        for order_id in (
            run.loop.ranges if run.loop else (run.lease.order_id,) if run.lease.order_id and not run.ended else ()
        ):
            # A worker may still run it. WITHDRAWN distinguishes its report from a late one: the answer is "cancelled".
            steps.close_order(execution, order_id, WITHDRAWN)
        waits.forget_waits(execution, run, event.ts)
    execution.agenda.pop(payload.token_id, None)
    token = execution.tokens.pop(payload.token_id)
    concurrency_limits.remove_token(execution, token)
    note_failure(execution, payload.error, token.step)


def note_failure(execution: Execution, error: Error | None, step: str | None = None) -> None:
    """Remember the error and its step, unless there is one already: an execution fails with its first error
    (ROUTE-08)."""
    if execution.lifecycle.error is None and error is not None:
        execution.lifecycle.error, execution.lifecycle.failed_step = error, step


def _on_next_selected(execution: Execution, event: Event, payload: NextSelected) -> None:
    if payload.ended == "failed":
        note_failure(execution, payload.error, event.step)
    elif payload.ended == "done":
        for step in _result_steps(execution, execution.runs[steps.run_id_in(event)]):
            # Removed first, so that the step that finished last is the last one of the dict (O-08).
            execution.outputs.ends.pop(step, None)
            execution.outputs.ends[step] = execution.outputs.results[step]


def _result_steps(execution: Execution, run: StepRun) -> list[str]:
    """The steps whose results a token leaves at its end: its last step. If that step has no task and no result of its
    own, the steps that led to it, if they have results (DOC-11, C-40)."""
    token = execution.tokens[run.token.token_id]
    if not run.traits.bare or run.step_waits.armed or _has_value(execution.outputs.results[run.step]):
        return [run.step]
    sources = [str(source["from"]) for source in token.inputs] or [token.source.step if token.source else ""]
    return [
        step for step in sources if step in execution.outputs.results and _has_value(execution.outputs.results[step])
    ] or [run.step]


def _has_value(result: TaskResult) -> bool:
    return result.status is Status.SUCCESS and (result.result is not None or result.ref is not None)


def _on_consumed(execution: Execution, event: Event, payload: TokenConsumed) -> None:
    """Remove a token with its step run, or one that was merged into another at a join."""
    concurrency_limits.remove_token(execution, execution.tokens.pop(payload.token_id))
    run_id = steps.run_id_in(event)
    if (run := execution.runs.pop(run_id, None)) is not None:
        waits.forget_waits(execution, run, event.ts)
        if execution.side_work.handlers:
            side_runs.forget_handlers(execution, run_id)
        del execution.agenda[run_id]


_TOKEN_HANDLERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    TokenCreated: _on_created,
    TokenEnqueued: _on_enqueued,
    TokenDropped: _on_dropped,
    TokenConsumed: _on_consumed,
    TokenHeld: _on_held,
    TokenReleased: _on_released,
    JoinFilled: _on_joined,
    JoinUnfilled: _on_joined,
    NextSelected: _on_next_selected,
}


# One lookup by class. A `match` over eighty classes would test them one after another for every event.
HANDLERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    **_TOKEN_HANDLERS,
    **steps.STEP_HANDLERS,
    **dict.fromkeys(get_args(cases.CaseEvent), cases.on_case_event),
    **dict.fromkeys(get_args(Waiting), waits.on_wait_event),
    **dict.fromkeys(get_args(side_runs.SideRunEvent), _on_side_run_event),
    **dict.fromkeys(get_args(_ExecutionEvent), _on_execution_event),
    **dict.fromkeys(_INFORMATIVE, _ignore),
}
