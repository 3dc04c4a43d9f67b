"""How the events of case runs change the state: where they stand, who listens, and what is kept for them (V2C-13).

Called by `engine.evolve`, which is the only door (EVT-07).
"""

from __future__ import annotations

from noetl.engine.event_rules import heard_as, hears
from noetl.engine.execution import Due, Execution, StepRun
from noetl.engine.loops import evolution as loops
from noetl.engine.pipeline.progress import entered
from noetl.engine.waits.evolution import watch_lifetime
from noetl.events.envelope import Event
from noetl.events.outcomes import Error
from noetl.events.v2_case_positions import Taken
from noetl.events.v2_case_runs import CaseHeard, CaseStarted, CaseWaiting

Hearing = CaseStarted | CaseWaiting | CaseHeard


def keep_for_listeners(execution: Execution, event: Event) -> None:
    """Events that come while a listener is busy, or the execution paused, wait for it; else it is told at once."""
    heard = heard_as(event)
    for run_id in execution.open_waits.listeners if heard is not None else ():
        run = execution.runs[run_id]
        if heard is not None and hears(run_id, event) and (execution.lifecycle.paused or not is_free(run)):
            run.case.heard = (*run.case.heard, heard)


def is_free(run: StepRun) -> bool:
    """Whether it can be told of an event at once: no worker is at it, and nothing is kept for it that came before."""
    return run.lease.order_id is None and not run.case.heard


def follow(execution: Execution, event: Event, payload: Hearing) -> None:
    run = execution.runs[event.step_run_id or ""]
    match payload:
        case CaseStarted():
            _started(execution, run, payload)
        case CaseWaiting():
            _waiting(execution, run)
        case CaseHeard():
            _apply_heard(execution, run, payload)


def _started(execution: Execution, run: StepRun, payload: CaseStarted) -> None:
    if run.loop is None:
        run.position = entered(run.position, payload.decision)
        note_listening(execution, run)
    else:
        loops.case_started(run.loop, payload)


def note_listening(execution: Execution, run: StepRun) -> None:
    if run.position.case is not None and run.position.case.listens:
        execution.open_waits.listeners[run.step_run_id] = None


def _waiting(execution: Execution, run: StepRun) -> None:
    assert run.lease.order_id is not None
    del execution.order_states.open[run.lease.order_id]
    execution.order_states.closed[run.lease.order_id] = run.lease.lease_epoch
    run.lease.order_id, run.lease.worker_id, run.lease.lease_epoch = None, None, 0
    watch_lifetime(execution, run)
    if run.position.case is not None and run.position.case.arms and not run.step_waits.armed:
        execution.agenda[run.step_run_id] = Due.ARM
    if run.case.heard:
        execution.agenda.setdefault(run.step_run_id, Due.HEAR)
    ask_listeners(execution)


def ask_listeners(execution: Execution) -> None:
    """Whoever waits hears first what was kept for it."""
    for run_id in execution.open_waits.listeners:
        if execution.runs[run_id].case.heard and execution.runs[run_id].lease.order_id is None:
            execution.agenda.setdefault(run_id, Due.HEAR)


def _apply_heard(execution: Execution, run: StepRun, payload: CaseHeard) -> None:
    run.position, run.case.heard = entered(run.position, payload.decision), payload.later
    execution.agenda.pop(run.step_run_id, None)
    if payload.order_id is not None:
        run.lease.order_id = payload.order_id
        execution.order_states.open[payload.order_id] = run.step_run_id


def taken_in(run: StepRun, error: Error | None) -> tuple[Taken, ...]:
    """The transitions that rules of v2-case took; of a loop those of its iterations, in their order (V2C-23)."""
    if run.loop is None:
        return run.position.case.taken if run.position.case is not None else ()
    return () if error else tuple(one for path in sorted(run.loop.taken) for one in run.loop.taken[path])
