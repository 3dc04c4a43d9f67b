"""How wait events change the state. Part of `evolve`: it decides nothing.

The end of a wait is the boundary event of a plain step run. A case run gets it as an event, and its rules decide what
follows (TMR-02).
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from noetl.engine.execution import Boundary, Due, DueTime, Execution, StepRun
from noetl.engine.waits.state import HumanTaskEvent, Wait, WaitKind, changed_task, new_task, withdrawn_task
from noetl.engine.waits.times import expiry_of
from noetl.events import waits
from noetl.events.envelope import Event
from noetl.events.outcomes import TaskResult
from noetl.events.v2_case_positions import OwnEvent


def on_wait_event(execution: Execution, event: Event, payload: waits.Waiting) -> None:
    match payload:
        case waits.TimerScheduled() | waits.MessageAwaited() | waits.SignalAwaited() | waits.HumanCreated():
            _on_wait_opened(execution, event, payload)
        case waits.TimerFired():
            _end_wait(execution, event, payload)
        case waits.TimerCancelled(withdrawn=True):
            _on_timer_withdrawn(execution, event, payload)
        case waits.TimerCancelled():
            _end_wait(execution, event, payload)
        case waits.MessageReceived():
            # Kept as long as the execution: the same message sent again a year later still counts once.
            execution.open_waits.known_keys[payload.message_id] = None
            _end_wait(execution, event, payload)
        case waits.MessageTimeout():
            execution.open_waits.due_times.cancel(DueTime.WAIT, payload.wait_id)
            # `fail` is followed by `step.failed`; with any other action the wait stays open, without a limit now.
            # Only an escalation ends it.
            if payload.action == "escalate":
                _end_wait(execution, event, payload)
        case waits.SignalReceived():
            execution.open_waits.known_keys[payload.signal_id] = None
            # Without a wait, only rules that listen received it: no step waited for it by name.
            if payload.wait_id is not None:
                _end_wait(execution, event, payload)
        case (
            waits.HumanClaimed()
            | waits.HumanReleased()
            | waits.HumanCommented()
            | waits.HumanOverdue()
            | waits.HumanEscalated()
            | waits.TaskCompleted()
        ):
            _on_task_event(execution, event, payload)
        case _:
            assert_never(payload)


def forget_waits(execution: Execution, run: StepRun, at: float) -> None:
    """The step run has ended: cancel its waits and its due times."""
    if run.timing.boundary_s is not None:
        execution.open_waits.due_times.cancel(DueTime.TIMEOUT, run.step_run_id)
    if run.timing.timeout_s is not None or run.timing.deadline_s is not None:
        execution.open_waits.due_times.cancel(DueTime.LIFETIME, run.step_run_id)
    close_all(execution, run, at)


def close_all(execution: Execution, run: StepRun, at: float) -> None:
    for kind, wait_id in run.step_waits.open.items():
        del execution.open_waits.waits[wait_id]
        execution.open_waits.due_times.cancel(DueTime.WAIT, wait_id)
        _count(execution, kind, -1)
        if kind is WaitKind.HUMAN:
            execution.open_waits.due_times.cancel(DueTime.DUE, wait_id)
            execution.open_waits.due_times.cancel(DueTime.ESCALATE, wait_id)
            # A completed task stays completed: its own end also closes the waits of its step.
            if (task := execution.open_waits.human_tasks[wait_id]).is_open:
                execution.open_waits.human_tasks[wait_id] = withdrawn_task(task, at)
    run.step_waits.open.clear()


def _count(execution: Execution, kind: WaitKind, change: int) -> None:
    match kind:
        case WaitKind.HUMAN:
            execution.open_waits.people += change
        case WaitKind.MESSAGE:
            execution.open_waits.messages += change
        case WaitKind.SIGNAL:
            execution.open_waits.signals += change
        case WaitKind.TIMER:
            pass  # lists show the time of the next one
        case _:
            assert_never(kind)


def watch_lifetime(execution: Execution, run: StepRun) -> None:
    """Set the time at which a waiting step run expires. No worker holds it, so the server watches it (O-21)."""
    expiry = expiry_of(execution, run)
    if expiry is not None:
        execution.open_waits.due_times.set(DueTime.LIFETIME, run.step_run_id, expiry[1])


def _run_of(execution: Execution, event: Event) -> StepRun:
    assert event.step_run_id is not None, f"{event.event_type} belongs to a step run"
    return execution.runs[event.step_run_id]


def _on_wait_opened(
    execution: Execution,
    event: Event,
    payload: waits.TimerScheduled | waits.MessageAwaited | waits.SignalAwaited | waits.HumanCreated,
) -> None:
    run, wait = _run_of(execution, event), _wait_of(event, payload)
    # A step may open several waits (a message and a timer). With the first one the worker has finished the order,
    # so the order is given up once.
    if not run.step_waits.armed:
        run.step_waits.armed = True
        run.lease.order_id, run.lease.worker_id, run.lease.lease_epoch = None, None, 0  # no worker holds it
        execution.agenda.pop(run.step_run_id, None)
        # Events that came while the worker was still running the step: its rules see them before the wait begins.
        if run.dialect.heard:
            execution.agenda[run.step_run_id] = Due.HEAR
        watch_lifetime(execution, run)
    execution.open_waits.waits[wait.wait_id] = wait
    run.step_waits.open[wait.kind] = wait.wait_id
    _count(execution, wait.kind, 1)
    # A human task has two times of its own, due and escalation, instead of one end.
    if not isinstance(payload, waits.HumanCreated):
        if wait.due_at is not None:
            execution.open_waits.due_times.set(DueTime.WAIT, wait.wait_id, wait.due_at)
        return
    task = new_task(payload, step=run.step, step_run_id=run.step_run_id, at=event.ts)
    execution.open_waits.human_tasks[task.task_id] = task
    if payload.due_at is not None:
        execution.open_waits.due_times.set(DueTime.DUE, task.task_id, payload.due_at)
    if payload.escalate_at is not None:
        execution.open_waits.due_times.set(DueTime.ESCALATE, task.task_id, payload.escalate_at)


def _wait_of(
    event: Event, payload: waits.TimerScheduled | waits.MessageAwaited | waits.SignalAwaited | waits.HumanCreated
) -> Wait:
    assert event.step_run_id is not None
    about: dict[str, Any] = {"step_run_id": event.step_run_id, "event_id": event.event_id, "opened_at": event.ts}
    match payload:
        case waits.TimerScheduled():
            return Wait(
                wait_id=payload.wait_id,
                kind=WaitKind.TIMER,
                name=payload.timer_id,
                due_at=payload.due_at,
                cancellable=payload.cancellable,
                **about,
            )
        case waits.MessageAwaited():
            return Wait(
                wait_id=payload.wait_id,
                kind=WaitKind.MESSAGE,
                name=payload.name,
                correlation=payload.correlation,
                due_at=payload.due_at,
                timeout_action=payload.timeout_action,
                **about,
            )
        case waits.SignalAwaited():
            return Wait(wait_id=payload.wait_id, kind=WaitKind.SIGNAL, name=payload.name, **about)
        case waits.HumanCreated():
            return Wait(wait_id=payload.task_id, kind=WaitKind.HUMAN, name=payload.title, **about)
        case _:
            assert_never(payload)


def _on_timer_withdrawn(execution: Execution, event: Event, payload: waits.TimerCancelled) -> None:
    """A timer was withdrawn: before its step run ends, or after another wait of the step has closed it."""
    # Both happen, so a wait that is closed already is not an error.
    if execution.open_waits.waits.pop(payload.wait_id, None) is not None:
        del _run_of(execution, event).step_waits.open[WaitKind.TIMER]
        execution.open_waits.due_times.cancel(DueTime.WAIT, payload.wait_id)


def _on_task_event(
    execution: Execution,
    event: Event,
    payload: HumanTaskEvent,
) -> None:
    execution.open_waits.human_tasks[payload.task_id] = changed_task(
        execution.open_waits.human_tasks[payload.task_id], payload, event.ts
    )
    match payload:
        case waits.HumanOverdue():
            execution.open_waits.due_times.cancel(DueTime.DUE, payload.task_id)
        case waits.HumanEscalated():
            execution.open_waits.due_times.cancel(DueTime.ESCALATE, payload.task_id)
        case waits.TaskCompleted():
            _end_wait(execution, event, payload)


def value_of_wait(payload: waits.Waiting) -> tuple[Any, bool]:
    """The value that the end of a wait brings, and whether it replaces the result of the pipeline."""
    match payload:
        case waits.MessageReceived():
            return payload.payload, False
        case waits.SignalReceived():
            return payload.data, False
        case waits.TaskCompleted():
            return payload.result, True
        case _:
            return msgspec.UNSET, False


def result_after_wait(own: TaskResult, given: Any, instead: bool) -> TaskResult:
    """The step's result: the value `given` by the wait if the pipeline returned nothing, or always with `instead`."""
    gave_nothing = own.result is None and own.ref is None
    return TaskResult(result=given) if given is not msgspec.UNSET and (instead or gave_nothing) else own


def _end_wait(execution: Execution, event: Event, payload: waits.Waiting) -> None:
    """One wait has ended; it closes the other waits of its step."""
    run, data, (given, instead) = _run_of(execution, event), event_data(payload), value_of_wait(payload)
    close_all(execution, run, event.ts)
    # A plain step: its pipeline is done, and its arcs are evaluated with the end of the wait as the event.
    if run.ended is not None:
        result = result_after_wait(run.ended.result or TaskResult(), given, instead)
        run.ended = Boundary(name=event.event_type, step=run.step, event_id=event.event_id, result=result, data=data)
        execution.outputs.results[run.step] = result
        execution.agenda[run.step_run_id] = Due.ROUTE
        return
    # A case run goes on: its rules get the end of the wait like any other event of their step.
    case = run.progress.position.case
    result_of = case.result_of if case is not None else None
    own = OwnEvent(
        name=event.event_type,
        step=run.step,
        data=data,
        task=result_of,
        wait=True,
        given=given if instead or result_of is None else msgspec.UNSET,
    )
    run.dialect.heard = (*run.dialect.heard, own)
    if run.lease.order_id is None:
        execution.agenda.setdefault(run.step_run_id, Due.HEAR)


# `event.data` of wait events, for the step that waited and for rules that listen (ROUTE-09).


def event_data(payload: waits.Waiting) -> Any:
    """The data of one event. For a message it is the payload (MSG-01), so that rules read what was sent."""
    match payload:
        case waits.MessageReceived():
            return payload.payload
        case waits.SignalReceived():
            return {"name": payload.name, "data": payload.data, "signal_id": payload.signal_id}
        case waits.TimerFired():
            return {"timer_id": payload.timer_id}
        case waits.TimerCancelled():
            return {"timer_id": payload.timer_id, "actor": payload.actor}
        case waits.MessageTimeout():
            return {"name": payload.name}
        case waits.TaskCompleted():
            return {"task_id": payload.task_id, "actor": payload.actor, "result": payload.result}
        case _:
            return msgspec.to_builtins(payload)


def reaches_listeners(payload: waits.Waiting) -> bool:
    """Whether rules that listen get it. They do not get a timer that is only withdrawn, nor one signal twice."""
    match payload:
        case waits.TimerCancelled():
            return not payload.withdrawn
        case waits.SignalReceived():
            return not payload.again
        case _:
            return True
