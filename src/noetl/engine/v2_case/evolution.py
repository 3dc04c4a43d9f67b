"""How the events of case runs change the state: positions, listeners, and events queued for them (V2C-13).

Called by `engine.evolve` alone, as all code that changes an execution (EVT-07). Also which events of an execution reach
the rules of others that listen, and as what (O-27). Bookkeeping does not: tokens, routing, `ctx`, cases themselves, and
whatever only begins.
"""

from __future__ import annotations

import msgspec

from noetl.engine.execution import Due, Execution, StepRun
from noetl.engine.loops import evolution as loops
from noetl.engine.pipeline.progress import position_after_entry
from noetl.engine.waits.evolution import event_data, reaches_listeners, watch_lifetime
from noetl.events import waits
from noetl.events.control import Emitted
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, IterationFailed, LoopDone
from noetl.events.outcomes import Error, unwrapped
from noetl.events.steps import CaseHeard, CaseStarted, CaseWaiting, StepDenied, StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_positions import OwnEvent, Taken


def as_own_event(event: Event) -> OwnEvent | None:
    """The event as rules of other steps see it, None when they do not."""
    payload = event.payload
    match payload:
        case StepDone():
            error, data = None, _result(payload)
        case TaskProcessed():
            error = payload.outcome.error
            data = {"task": payload.task, "status": payload.outcome.status.value, "result": payload.outcome.result}
        case StepFailed() | IterationFailed():
            error, data = payload.error, {"error": payload.error.readable()}
        case StepDenied() | LoopDone():
            error, data = None, msgspec.to_builtins(payload)
        case IterationDone():
            error, data = None, {"index": payload.index, **_result(payload)}
        case waits.StepTimeout():
            error, data = None, {"action": payload.action, "alternative": payload.alternative}
        case Emitted():
            return OwnEvent(name=payload.emitted, step=event.step or "", data=payload.data)
        case (
            waits.TimerFired()
            | waits.TimerCancelled()
            | waits.MessageReceived()
            | waits.MessageTimeout()
            | waits.SignalReceived()
            | waits.HumanCreated()
            | waits.HumanClaimed()
            | waits.HumanReleased()
            | waits.HumanCommented()
            | waits.HumanOverdue()
            | waits.HumanEscalated()
            | waits.TaskCompleted()
        ) if reaches_listeners(payload):
            error, data = None, event_data(payload)
        case _:
            return None
    return OwnEvent(name=event.event_type, step=event.step or "", data=data, error=error)


def reaches_run(run_id: str, event: Event) -> bool:
    """Whether a step run that listens receives this event. It receives events of other step runs, and those of the
    deadline of its own human task (HUM-04)."""
    return run_id != event.step_run_id or isinstance(event.payload, waits.HumanOverdue | waits.HumanEscalated)


def _result(payload: StepDone | IterationDone) -> dict[str, object]:
    """The payload of a result; one that is stored elsewhere by its reference."""
    result = payload.result
    if result.ref is not None:
        return {"ref": msgspec.to_builtins(result.ref)}
    return {"result": unwrapped(result.result, wrapped=result.wrapped)}


CaseEvent = CaseStarted | CaseWaiting | CaseHeard


def keep_for_listeners(execution: Execution, event: Event) -> None:
    """Store the event for listeners that are busy, or while the execution is paused. A free listener receives it at
    once."""
    own_event = as_own_event(event)
    for run_id in execution.open_waits.listeners if own_event is not None else ():
        run = execution.runs[run_id]
        if own_event is not None and reaches_run(run_id, event) and (execution.lifecycle.paused or not is_free(run)):
            run.dialect.heard = (*run.dialect.heard, own_event)


def is_free(run: StepRun) -> bool:
    """Whether an event can be delivered at once: no worker runs the step, and no earlier event is queued."""
    return run.lease.order_id is None and not run.dialect.heard


def on_case_event(execution: Execution, event: Event, payload: CaseEvent) -> None:
    run = execution.runs[event.step_run_id or ""]
    match payload:
        case CaseStarted():
            _on_case_started(execution, run, payload)
        case CaseWaiting():
            _on_case_waiting(execution, run)
        case CaseHeard():
            _on_case_heard(execution, run, payload)


def _on_case_started(execution: Execution, run: StepRun, payload: CaseStarted) -> None:
    if run.loop is None:
        run.progress.position = position_after_entry(run.progress.position, payload.decision)
        note_listening(execution, run)
    else:
        loops.on_case_started(run.loop, payload)


def note_listening(execution: Execution, run: StepRun) -> None:
    case = run.progress.position.case
    if case is not None and case.listens:
        execution.open_waits.listeners[run.step_run_id] = None


def _on_case_waiting(execution: Execution, run: StepRun) -> None:
    assert run.lease.order_id is not None
    # Closed with the epoch that it ended under: if the worker reports once more, that is a repetition and no late
    # report.
    del execution.order_states.open[run.lease.order_id]
    execution.order_states.closed[run.lease.order_id] = run.lease.lease_epoch
    run.lease.order_id, run.lease.worker_id, run.lease.lease_epoch = None, None, 0
    watch_lifetime(execution, run)
    case = run.progress.position.case
    if case is not None and case.arms and not run.step_waits.armed:
        execution.agenda[run.step_run_id] = Due.ARM
    # `setdefault`: where both are due, arming the waits comes first.
    if run.dialect.heard:
        execution.agenda.setdefault(run.step_run_id, Due.HEAR)
    wake_listeners(execution)


def wake_listeners(execution: Execution) -> None:
    """A step run that begins to wait first gets the events that were stored for it."""
    for run_id in execution.open_waits.listeners:
        if execution.runs[run_id].dialect.heard and execution.runs[run_id].lease.order_id is None:
            execution.agenda.setdefault(run_id, Due.HEAR)


def _on_case_heard(execution: Execution, run: StepRun, payload: CaseHeard) -> None:
    run.progress.position = position_after_entry(run.progress.position, payload.decision)
    run.dialect.heard = payload.later
    execution.agenda.pop(run.step_run_id, None)
    if payload.order_id is not None:
        run.lease.order_id = payload.order_id
        execution.order_states.open[payload.order_id] = run.step_run_id


def transitions_taken(run: StepRun, error: Error | None) -> tuple[Taken, ...]:
    """The transitions that rules of v2-case took; of a loop those of its iterations, in their order (V2C-23)."""
    if run.loop is None:
        case = run.progress.position.case
        return case.taken if case is not None else ()
    return () if error else tuple(one for path in sorted(run.loop.taken) for one in run.loop.taken[path])
