"""How the events of waiting change the state. Part of `evolve`: it decides nothing.

A wait that ends is the boundary event of a plain step run; a case run is told of it, and its rules lead on (TMR-02).
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from noetl.engine.due_times import DueTime
from noetl.engine.execution import Boundary, Due, Execution, StepRun
from noetl.engine.waits.human_tasks import Changing, changed, created, withdrawn
from noetl.engine.waits.state import Wait, WaitKind
from noetl.engine.waits.times import expiry_of
from noetl.events import waits
from noetl.events.envelope import Event
from noetl.events.outcomes import TaskResult
from noetl.events.v2_case_positions import OwnEvent


def follow(execution: Execution, event: Event, payload: waits.Waiting) -> None:
    match payload:
        case waits.TimerScheduled() | waits.MessageAwaited() | waits.SignalAwaited() | waits.HumanCreated():
            _open(execution, event, payload)
        case waits.TimerFired():
            _end_wait(execution, event, payload)
        case waits.TimerCancelled(withdrawn=True):
            _withdrawn(execution, event, payload)
        case waits.TimerCancelled():
            _end_wait(execution, event, payload)
        case waits.MessageReceived():
            # For ever: the same message sent again a year later still counts once.
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
            # Without a wait it was only told to listeners: nobody waited for it by name.
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
            _on_task(execution, event, payload)
        case _:
            assert_never(payload)


def forget(execution: Execution, run: StepRun, at: float) -> None:
    """The step run is gone, and nothing of it goes off any more."""
    if run.timing.boundary_s is not None:
        execution.open_waits.due_times.cancel(DueTime.TIMEOUT, run.step_run_id)
    if run.timing.timeout_s is not None or run.timing.deadline_s is not None:
        execution.open_waits.due_times.cancel(DueTime.LIFETIME, run.step_run_id)
    close_all(execution, run, at)


def close_all(execution: Execution, run: StepRun, at: float) -> None:
    for kind, wait_id in run.step_waits.open.items():
        del execution.open_waits.waits[wait_id]
        execution.open_waits.due_times.cancel(DueTime.WAIT, wait_id)
        if kind is WaitKind.HUMAN:
            execution.open_waits.due_times.cancel(DueTime.DUE, wait_id)
            execution.open_waits.due_times.cancel(DueTime.ESCALATE, wait_id)
            # A completed task stays as it was completed: closing the waits of its step is what its own end does, too.
            if (task := execution.open_waits.human_tasks[wait_id]).is_open:
                execution.open_waits.human_tasks[wait_id] = withdrawn(task, at)
    run.step_waits.open.clear()


def watch_lifetime(execution: Execution, run: StepRun) -> None:
    """No worker watches over a step run that waits (O-21)."""
    expiry = expiry_of(execution, run)
    if expiry is not None:
        execution.open_waits.due_times.set(DueTime.LIFETIME, run.step_run_id, expiry[1])


def _run(execution: Execution, event: Event) -> StepRun:
    assert event.step_run_id is not None, f"{event.event_type} belongs to a step run"
    return execution.runs[event.step_run_id]


def _open(
    execution: Execution,
    event: Event,
    payload: waits.TimerScheduled | waits.MessageAwaited | waits.SignalAwaited | waits.HumanCreated,
) -> None:
    run, wait = _run(execution, event), _wait(event, payload)
    # A step may open several waits (a message with a timer beside it). With the first one the worker has done its
    # part, so that the order is given up once.
    if not run.step_waits.armed:
        run.step_waits.armed = True
        run.lease.order_id, run.lease.worker_id, run.lease.lease_epoch = None, None, 0  # nobody is at work for it
        execution.agenda.pop(run.step_run_id, None)
        # Events came while the worker was still at it; they are judged now, before anything is waited for.
        if run.case.heard:
            execution.agenda[run.step_run_id] = Due.HEAR
        watch_lifetime(execution, run)
    execution.open_waits.waits[wait.wait_id] = wait
    run.step_waits.open[wait.kind] = wait.wait_id
    # A human task has two moments of its own, due and escalation, instead of one end.
    if not isinstance(payload, waits.HumanCreated):
        if wait.due_at is not None:
            execution.open_waits.due_times.set(DueTime.WAIT, wait.wait_id, wait.due_at)
        return
    task = created(payload, step=run.step, step_run_id=run.step_run_id, at=event.ts)
    execution.open_waits.human_tasks[task.task_id] = task
    if task.due_at is not None:
        execution.open_waits.due_times.set(DueTime.DUE, task.task_id, task.due_at)
    if task.escalate_at is not None:
        execution.open_waits.due_times.set(DueTime.ESCALATE, task.task_id, task.escalate_at)


def _wait(
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


def _withdrawn(execution: Execution, event: Event, payload: waits.TimerCancelled) -> None:
    """Told before its step run is gone, or after the wait that came first has closed it."""
    # Both orders occur, so a wait that is gone already is no error.
    if execution.open_waits.waits.pop(payload.wait_id, None) is not None:
        del _run(execution, event).step_waits.open[WaitKind.TIMER]
        execution.open_waits.due_times.cancel(DueTime.WAIT, payload.wait_id)


def _on_task(
    execution: Execution,
    event: Event,
    payload: Changing,
) -> None:
    execution.open_waits.human_tasks[payload.task_id] = changed(
        execution.open_waits.human_tasks[payload.task_id], payload, event.ts
    )
    match payload:
        case waits.HumanOverdue():
            execution.open_waits.due_times.cancel(DueTime.DUE, payload.task_id)
        case waits.HumanEscalated():
            execution.open_waits.due_times.cancel(DueTime.ESCALATE, payload.task_id)
        case waits.TaskCompleted():
            _end_wait(execution, event, payload)


def given_by(payload: waits.Waiting) -> tuple[Any, bool]:
    """What the end of a wait brings, and whether it stands instead of what the pipeline gave."""
    match payload:
        case waits.MessageReceived():
            return payload.payload, False
        case waits.SignalReceived():
            return payload.data, False
        case waits.TaskCompleted():
            return payload.result, True
        case _:
            return msgspec.UNSET, False


def result_with(own: TaskResult, given: Any, instead: bool) -> TaskResult:
    """The step's result: what the wait has `given` where the pipeline gave nothing, or `instead` of it."""
    gave_nothing = own.result is None and own.ref is None
    return TaskResult(result=given) if given is not msgspec.UNSET and (instead or gave_nothing) else own


def _end_wait(execution: Execution, event: Event, payload: waits.Waiting) -> None:
    """One wait has ended, and with it the others of its step."""
    run, data, (given, instead) = _run(execution, event), event_data(payload), given_by(payload)
    close_all(execution, run, event.ts)
    # A plain step: its pipeline is done, and the end of the wait is the event its arcs are judged by.
    if run.ended is not None:
        result = result_with(run.ended.result or TaskResult(), given, instead)
        run.ended = Boundary(name=event.event_type, step=run.step, event_id=event.event_id, result=result, data=data)
        execution.outputs.results[run.step] = result
        execution.agenda[run.step_run_id] = Due.ROUTE
        return
    # A case run goes on: its rules are told of the end of the wait as of any event of their own step.
    case = run.position.case
    result_of = case.result_of if case is not None else None
    own = OwnEvent(
        name=event.event_type,
        step=run.step,
        data=data,
        task=result_of,
        wait=True,
        given=given if instead or result_of is None else msgspec.UNSET,
    )
    run.case.heard = (*run.case.heard, own)
    if run.lease.order_id is None:
        execution.agenda.setdefault(run.step_run_id, Due.HEAR)


# What the events of waiting tell: `event.data`, for the step that waited and for everybody who listens (ROUTE-09).


def event_data(payload: waits.Waiting) -> Any:
    """The data of one event. A message's is its payload (MSG-01), so that rules read what was sent."""
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


def is_told(payload: waits.Waiting) -> bool:
    """Whether rules that listen hear of it: not of a timer that is only withdrawn, nor twice of one signal."""
    match payload:
        case waits.TimerCancelled():
            return not payload.withdrawn
        case waits.SignalReceived():
            return not payload.again
        case _:
            return True
