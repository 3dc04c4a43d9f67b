"""How the events of step runs change the state, from being scheduled to their end. It decides nothing.

Called by `engine.evolve`, which is the only door (EVT-07).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from noetl.engine import concurrency_limits
from noetl.engine.due_times import DueTime
from noetl.engine.execution import WITHDRAWN, Boundary, Due, Execution, StepLease, StepRun, StepTiming
from noetl.engine.identity import entry_mark
from noetl.engine.loops import evolution as loops
from noetl.engine.pipeline.patches import written
from noetl.engine.pipeline.progress import after
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

Looping = LoopStarted | LoopScheduled | IterationStarted | IterationDone | IterationFailed | LoopCut | LoopKept
Telling = TaskStarted | KeychainRefreshed | HookFailed | JobPlaced


def run_id_in(event: Event) -> str:
    assert event.step_run_id is not None, f"{event.event_type} belongs to a step run"
    return event.step_run_id


def _run_of(execution: Execution, event: Event) -> StepRun:
    return execution.runs[event.step_run_id or ""]


def _scheduled(execution: Execution, event: Event, payload: StepScheduled) -> None:
    step_run_id = run_id_in(event)
    assert event.step is not None
    execution.runs[step_run_id] = StepRun(
        step_run_id=step_run_id,
        token_id=payload.token_id,
        step=event.step,
        args=payload.args,
        token_meta=payload.token_meta,
        event_id=event.event_id,
        position=Position(task=payload.task),
        lease=StepLease(order_id=payload.order_id, pool=payload.pool),
        timing=StepTiming(timeout_s=payload.timeout_s, deadline_s=payload.deadline_s, boundary_s=payload.boundary_s),
        bare=payload.task is None and not payload.looped,
        keeps_tasks=payload.keeps_tasks,
    )
    execution.step_run_count += 1
    execution.runs_by_step[event.step] = execution.runs_by_step.get(event.step, 0) + 1
    execution.agenda.pop(payload.token_id, None)  # a parked one is admitted without having been due
    token = execution.tokens[payload.token_id]
    if payload.joins and not token.inputs:
        token.inputs = [token.as_input()]
    concurrency_limits.take(execution, token, payload.slots)
    if payload.rate is not None:
        concurrency_limits.begin(execution, payload.rate, event.ts)
    if payload.handles:
        execution.side_work.handlers[step_run_id] = payload.handles
    if payload.looped:
        return  # what follows is its loop's business
    if payload.order_id is None:
        execution.agenda[step_run_id] = Due.RUN
    else:
        execution.order_states.open[payload.order_id] = step_run_id


def _started(execution: Execution, event: Event, payload: StepStarted) -> None:
    run = _run_of(execution, event)
    run.timing.started_at = event.ts
    if run.timing.boundary_s is not None:
        execution.open_waits.due_times.set(DueTime.TIMEOUT, run.step_run_id, event.ts + run.timing.boundary_s)


def _timed_out(execution: Execution, event: Event, payload: StepTimeout) -> None:
    """Only an alternative ends the step run here; a failure has an event of its own (TMR-05)."""
    execution.open_waits.due_times.cancel(DueTime.TIMEOUT, run_id_in(event))
    if payload.action == "alternative":
        error = times.timed_out(event.step or "")
        ended(execution, event, TaskResult(status=Status.ERROR, error=error), error)


def _claimed(execution: Execution, event: Event, payload: TokenClaimed) -> None:
    run = _run_of(execution, event)
    if run.loop is not None and payload.order_id is not None:
        loops.claimed(run.loop, payload.order_id, payload.worker_id, payload.lease_epoch)
        _ask_for_loop(execution, run)
    else:
        run.lease.worker_id, run.lease.lease_epoch = payload.worker_id, payload.lease_epoch


def _note_task_event(execution: Execution, event: Event, payload: Telling) -> None:
    """Kept until the task is processed: a report of it that comes again is known by them (EVT-06)."""
    run = _run_of(execution, event)
    if run.loop is None:
        run.task_events = (*run.task_events, entry_mark(payload, run.lease.lease_epoch))
        run.in_task = run.in_task or type(payload) is TaskStarted
    else:
        loops.note_task_event(run.loop, payload)


def _processed(execution: Execution, event: Event, payload: TaskProcessed) -> None:
    run, decision = _run_of(execution, event), payload.decision
    if run.loop is None:
        run.position, run.in_task, run.task_events = after(run.position, payload, event.ts), False, ()
        if run.position.case is not None:
            cases.note_listening(execution, run)
    else:
        loops.processed(run.loop, payload, event.ts)
    if side_runs.CHILD in payload.outcome.helpers:
        side_runs.note_child(run, payload)
    if decision.set_vars:
        run.eval_vars.own = written(run.eval_vars.own, decision.set_vars)
    if decision.set_shared:
        for key, value in decision.set_shared.items():
            run.eval_vars.shared.setdefault(key, []).append((payload.path, value))


def _looped(execution: Execution, event: Event, payload: Looping) -> None:
    run = _run_of(execution, event)
    if isinstance(payload, LoopStarted):
        run.loop = loops.opened(run.loop, payload, event.event_id, execution.ctx)
    assert run.loop is not None
    match payload:
        case LoopScheduled():
            loops.scheduled(run.loop, payload)
            execution.order_states.open[payload.order_id] = run.step_run_id
        case IterationStarted():
            loops.begun(run.loop, payload, run.position)
        case IterationDone() | IterationFailed():
            if span := loops.ended(run.loop, payload):
                close(execution, span.order_id, span.lease_epoch)
        case LoopKept():
            loops.keep_iterations(run.loop, payload)
            execution.outputs.kept_iterations = None
        case LoopCut():
            for one in loops.cut(run.loop, payload):
                close(execution, one.order_id, WITHDRAWN)
    _ask_for_loop(execution, run)


def _ask_for_loop(execution: Execution, run: StepRun) -> None:
    assert run.loop is not None
    if run.loop.due or run.loop.failing:
        # Not over what is there: its place in the order of the agenda is from when it first came due.
        execution.agenda.setdefault(run.step_run_id, Due.LOOP)
    else:
        execution.agenda.pop(run.step_run_id, None)


def close(execution: Execution, order_id: str, epoch: int) -> None:
    del execution.order_states.open[order_id]
    execution.order_states.closed[order_id] = epoch


def _done(execution: Execution, event: Event, payload: StepDone) -> None:
    ended(execution, event, payload.result, None)


def _failed(execution: Execution, event: Event, payload: StepFailed) -> None:
    ended(execution, event, TaskResult(status=Status.ERROR, error=payload.error), payload.error)


def _loop_done(execution: Execution, event: Event, payload: LoopDone) -> None:
    ended(execution, event, TaskResult(result=payload.results, ref=payload.ref), None)


def ended(execution: Execution, event: Event, result: TaskResult, error: Error | None) -> None:
    run = execution.runs[run_id_in(event)]
    if run.keeps_tasks and run.position.results:
        result = msgspec.structs.replace(result, tasks=run.position.results)
    run.ended = Boundary(
        name=event.event_type,
        step=run.step,
        event_id=event.event_id,
        result=result,
        error=error,
        loop=event.payload if type(event.payload) is LoopDone else None,
    )
    run.case.taken = cases.taken_in(run, error) if run.loop is not None or run.position.case is not None else ()
    execution.open_waits.listeners.pop(run.step_run_id, None)
    # By step, not by run: templates read the latest run of a step by its name.
    execution.outputs.results[run.step] = result
    execution.agenda[run.step_run_id] = Due.ROUTE
    if (
        run.lease.order_id in execution.order_states.open
    ):  # one that the server ends is nobody's report: who works on it is told
        close(execution, run.lease.order_id, run.lease.lease_epoch if event.source is EventSource.WORKER else WITHDRAWN)
    if run.step_waits.open:
        waits.close_all(execution, run, event.ts)
    if run.loop is not None:
        for order_id in run.loop.ranges:
            close(execution, order_id, WITHDRAWN)
        run.loop = None


def _interrupted(execution: Execution, event: Event, payload: StepInterrupted) -> None:
    """The boundary of a step whose body a handler stopped; its arcs read what had come, and what was made of it."""
    ended(execution, event, payload.result, None)
    run = execution.runs[run_id_in(event)]
    assert run.ended is not None
    error = payload.error.readable() if payload.error is not None else None
    data = {"event": payload.event, "data": payload.data, "result": payload.result.result, "error": error}
    run.ended = msgspec.structs.replace(run.ended, data=data)


# By class, each its own function: asking for one class after the other was a tenth of what a step cost the engine.
FOLLOWERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    StepScheduled: _scheduled,
    TokenClaimed: _claimed,
    StepStarted: _started,
    **dict.fromkeys(get_args(Telling), _note_task_event),
    TaskProcessed: _processed,
    **dict.fromkeys(get_args(Looping), _looped),
    StepDone: _done,
    StepFailed: _failed,
    LoopDone: _loop_done,
    StepInterrupted: _interrupted,
    StepTimeout: _timed_out,
}
