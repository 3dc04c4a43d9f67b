"""How the events of step runs change the state, from scheduling to their end.

Part of `evolve`, which alone calls these functions (EVT-07). They decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from noetl.engine import concurrency_limits
from noetl.engine.execution import (
    WITHDRAWN,
    Boundary,
    Due,
    DueTime,
    Execution,
    StepLease,
    StepProgress,
    StepRun,
    StepTiming,
    StepToken,
    StepTraits,
)
from noetl.engine.identity import entry_key
from noetl.engine.loops import evolution as loops
from noetl.engine.pipeline.patches import patched
from noetl.engine.pipeline.progress import position_after
from noetl.engine.side_runs import evolution as side_runs
from noetl.engine.v2_case import evolution as cases
from noetl.engine.waits import evolution as waits
from noetl.engine.waits import times
from noetl.events.envelope import Event
from noetl.events.loops import (
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopCut,
    LoopDone,
    LoopKept,
    LoopScheduled,
    LoopStarted,
)
from noetl.events.orders import Position
from noetl.events.outcomes import Error, Status, TaskResult
from noetl.events.payloads import EventSource
from noetl.events.side_runs import StepInterrupted
from noetl.events.steps import StepDone, StepFailed, StepScheduled, StepStarted
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.events.tokens import TokenClaimed
from noetl.events.waits import StepTimeout

LoopEvent = LoopStarted | LoopScheduled | IterationStarted | IterationDone | IterationFailed | LoopCut | LoopKept
TaskNote = TaskStarted | KeychainRefreshed | HookFailed | JobPlaced


def run_id_in(event: Event) -> str:
    assert event.step_run_id is not None, f"{event.event_type} belongs to a step run"
    return event.step_run_id


def _run_of(execution: Execution, event: Event) -> StepRun:
    return execution.runs[event.step_run_id or ""]


def _on_scheduled(execution: Execution, event: Event, payload: StepScheduled) -> None:
    step_run_id = run_id_in(event)
    assert event.step is not None
    execution.runs[step_run_id] = StepRun(
        step_run_id=step_run_id,
        step=event.step,
        event_id=event.event_id,
        token=StepToken(token_id=payload.token_id, args=payload.args, meta=payload.token_meta),
        progress=StepProgress(position=Position(task=payload.task)),
        lease=StepLease(order_id=payload.order_id, pool=payload.pool),
        timing=StepTiming(timeout_s=payload.timeout_s, deadline_s=payload.deadline_s, boundary_s=payload.boundary_s),
        traits=StepTraits(bare=payload.task is None and not payload.looped, keeps_tasks=payload.keeps_tasks),
    )
    counts = execution.counts
    counts.step_runs += 1
    counts.step_runs_by_step[event.step] = counts.step_runs_by_step.get(event.step, 0) + 1
    execution.agenda.pop(payload.token_id, None)  # a parked token was not on the agenda
    token = execution.tokens[payload.token_id]
    if payload.joins and not token.inputs:
        token.inputs = [token.as_input()]
    concurrency_limits.take_slots(execution, token, payload.slots)
    if payload.rate is not None:
        concurrency_limits.begin_under_rate(execution, payload.rate, event.ts)
    if payload.handles:
        execution.side_work.handlers[step_run_id] = payload.handles
    if payload.looped:
        return  # `LoopStarted` follows and puts the loop on the agenda
    if payload.order_id is None:
        execution.agenda[step_run_id] = Due.RUN
    else:
        execution.order_states.open[payload.order_id] = step_run_id


def _on_started(execution: Execution, event: Event, payload: StepStarted) -> None:
    run = _run_of(execution, event)
    run.timing.started_at = event.ts
    if run.timing.boundary_s is not None:
        execution.open_waits.due_times.set(DueTime.TIMEOUT, run.step_run_id, event.ts + run.timing.boundary_s)


def _on_timeout(execution: Execution, event: Event, payload: StepTimeout) -> None:
    """End the step run only for an alternative; a failure has an event of its own, `step.failed` (TMR-05)."""
    execution.open_waits.due_times.cancel(DueTime.TIMEOUT, run_id_in(event))
    if payload.action == "alternative":
        error = times.timeout_error(event.step or "")
        end_step_run(execution, event, TaskResult(status=Status.ERROR, error=error), error)


def _on_claimed(execution: Execution, event: Event, payload: TokenClaimed) -> None:
    run = _run_of(execution, event)
    if run.loop is not None and payload.order_id is not None:
        loops.on_range_claimed(run.loop, payload.order_id, payload.worker_id, payload.lease_epoch)
        _update_loop_agenda(execution, run)
    else:
        run.lease.worker_id, run.lease.lease_epoch = payload.worker_id, payload.lease_epoch


def _on_task_note(execution: Execution, event: Event, payload: TaskNote) -> None:
    """Remember the entry until the task is processed, to recognise a repeated report (EVT-06)."""
    run = _run_of(execution, event)
    if run.loop is None:
        progress = run.progress
        progress.task_events = (*progress.task_events, entry_key(payload, run.lease.lease_epoch))
        if type(payload) is TaskStarted:
            progress.in_task, progress.task_starts = True, progress.task_starts + 1
    else:
        loops.on_task_note(run.loop, payload)


def _on_task_processed(execution: Execution, event: Event, payload: TaskProcessed) -> None:
    run, decision = _run_of(execution, event), payload.decision
    if run.loop is None:
        progress = run.progress
        progress.position = position_after(progress.position, payload, event.ts)
        progress.in_task, progress.task_starts, progress.task_events = False, 0, ()
        if progress.position.case is not None:
            cases.note_listening(execution, run)
    else:
        loops.on_task_processed(run.loop, payload, event.ts)
    if side_runs.CHILD in payload.outcome.helpers:
        side_runs.note_child(run, payload)
    if decision.set_vars:
        run.dialect.vars = patched(run.dialect.vars, decision.set_vars)
    if decision.set_shared:
        for key, value in decision.set_shared.items():
            run.dialect.shared_vars.setdefault(key, []).append((payload.path, value))


def _on_loop_event(execution: Execution, event: Event, payload: LoopEvent) -> None:
    run = _run_of(execution, event)
    if isinstance(payload, LoopStarted):
        run.loop = loops.on_loop_started(run.loop, payload, event.event_id, execution.variables.ctx)
        execution.counts.failed_iterations.count(run.step, payload)
    assert run.loop is not None
    match payload:
        case LoopScheduled():
            loops.on_range_scheduled(run.loop, payload)
            execution.order_states.open[payload.order_id] = run.step_run_id
        case IterationStarted():
            loops.on_iteration_started(run.loop, payload, run.progress.position)
        case IterationDone() | IterationFailed():
            begun = run.loop.begun.get(payload.path)
            if begun is not None and begun.passed_over and isinstance(payload, IterationDone):
                execution.counts.failed_iterations.passed_over += 1
            if span := loops.on_iteration_ended(run.loop, payload):
                close_order(execution, span.order_id, span.lease_epoch)
            # Only failures and added items are counted for lists of executions. A loop may have a hundred thousand
            # successful iterations, and they change no number that a list shows.
            if not isinstance(payload, IterationDone) or payload.extend:
                execution.counts.failed_iterations.count(run.step, payload)
        case LoopKept():
            loops.keep_iterations(run.loop, payload)
            execution.outputs.kept_iterations = None
        case LoopCut():
            for span in loops.on_loop_cut(run.loop, payload):
                close_order(execution, span.order_id, WITHDRAWN)
    _update_loop_agenda(execution, run)


def _update_loop_agenda(execution: Execution, run: StepRun) -> None:
    assert run.loop is not None
    if run.loop.due or run.loop.failing:
        # `setdefault` keeps the place in the agenda from when the loop first came due.
        execution.agenda.setdefault(run.step_run_id, Due.LOOP)
    else:
        execution.agenda.pop(run.step_run_id, None)


def close_order(execution: Execution, order_id: str, epoch: int) -> None:
    """Close an open order. `epoch` is the lease it ended under, or WITHDRAWN."""
    del execution.order_states.open[order_id]
    execution.order_states.closed[order_id] = epoch


def _on_done(execution: Execution, event: Event, payload: StepDone) -> None:
    end_step_run(execution, event, payload.result, None)


def _on_failed(execution: Execution, event: Event, payload: StepFailed) -> None:
    end_step_run(execution, event, TaskResult(status=Status.ERROR, error=payload.error), payload.error)


def _on_loop_done(execution: Execution, event: Event, payload: LoopDone) -> None:
    end_step_run(execution, event, TaskResult(result=payload.results, ref=payload.ref, of_loop=True), None)


def end_step_run(execution: Execution, event: Event, result: TaskResult, error: Error | None) -> None:
    """Set the boundary event of a step run, publish its result, and put it on the agenda for routing."""
    run = execution.runs[run_id_in(event)]
    position = run.progress.position
    if run.traits.keeps_tasks and position.results:
        result = msgspec.structs.replace(result, tasks=position.results)
    run.ended = Boundary(
        name=event.event_type,
        step=run.step,
        event_id=event.event_id,
        result=result,
        error=error,
        loop=event.payload if type(event.payload) is LoopDone else None,
    )
    run.dialect.taken = cases.transitions_taken(run, error) if run.loop is not None or position.case is not None else ()
    execution.open_waits.listeners.pop(run.step_run_id, None)
    # By step, not by run: templates read the latest run of a step by the step's name.
    execution.outputs.results[run.step] = result
    execution.agenda[run.step_run_id] = Due.ROUTE
    # When the server ends a step run, no report with the current epoch did. The order is then withdrawn, so that the
    # worker that still runs it is answered "cancelled" and not "duplicate".
    if run.lease.order_id in execution.order_states.open:
        close_order(
            execution, run.lease.order_id, run.lease.lease_epoch if event.source is EventSource.WORKER else WITHDRAWN
        )
    if run.step_waits.open:
        waits.close_all(execution, run, event.ts)
    if run.loop is not None:
        execution.counts.failed_iterations.end_loop(run.step, run.loop.unrun)
        for order_id in run.loop.ranges:
            close_order(execution, order_id, WITHDRAWN)
        run.loop = None


def _on_interrupted(execution: Execution, event: Event, payload: StepInterrupted) -> None:
    """End a step whose body a handler stopped. Its arcs read the event and the result of the handler."""
    end_step_run(execution, event, payload.result, None)
    run = execution.runs[run_id_in(event)]
    assert run.ended is not None
    error = payload.error.readable() if payload.error is not None else None
    data = {"event": payload.event, "data": payload.data, "result": payload.result.result, "error": error}
    run.ended = msgspec.structs.replace(run.ended, data=data)


# One function per class: a `match` over the classes was measured as a tenth of the engine's cost of a step.
STEP_HANDLERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    StepScheduled: _on_scheduled,
    TokenClaimed: _on_claimed,
    StepStarted: _on_started,
    **dict.fromkeys(get_args(TaskNote), _on_task_note),
    TaskProcessed: _on_task_processed,
    **dict.fromkeys(get_args(LoopEvent), _on_loop_event),
    StepDone: _on_done,
    StepFailed: _on_failed,
    LoopDone: _on_loop_done,
    StepInterrupted: _on_interrupted,
    StepTimeout: _on_timeout,
}
