"""How the events of side runs change the state. Part of `evolve`, which alone calls it (EVT-07); it decides nothing."""

from __future__ import annotations

from typing import Any, assert_never

from noetl.engine.execution import WITHDRAWN, Due, Execution, StepLease, StepProgress, StepRun, StepTiming, StepToken
from noetl.engine.pipeline.patches import patched
from noetl.engine.side_runs.state import PendingHandler, Saga, SideRun, SideRunKind
from noetl.engine.v2_case.evolution import as_own_event, reaches_run
from noetl.engine.waits.evolution import close_all
from noetl.events import side_runs
from noetl.events.control import PlaybookCancelled
from noetl.events.envelope import Event
from noetl.events.orders import Position
from noetl.events.outcomes import Error
from noetl.events.tasks import TaskProcessed

COMPENSATE = "compensate"  # the key in the agenda: one for all, since compensations run one at a time
CHILD = "playbook"  # the helper of an outcome that names a child execution


SideRunEvent = (
    side_runs.CompensationRegistered
    | side_runs.CompensationRequested
    | side_runs.CompensationStarted
    | side_runs.CompensationDone
    | side_runs.CompensationFailed
    | side_runs.CompensationUnknown
    | side_runs.OrderClaimed
    | side_runs.HandlerStarted
    | side_runs.HandlerSkipped
    | side_runs.HandlerDone
    | side_runs.HandlerFailed
    | side_runs.AsyncStarted
    | side_runs.AsyncDone
)


def on_side_run_event(execution: Execution, event: Event, payload: SideRunEvent) -> Error | None:
    """Apply an event of a side run; the error that the execution fails with, if it does."""
    match payload:
        case side_runs.CompensationRegistered():
            _on_registered(_saga_of(execution), payload)
        case side_runs.CompensationRequested():
            _on_requested(execution, payload)
        case side_runs.CompensationStarted():
            _on_compensation_started(execution, event, payload)
        case side_runs.CompensationDone() | side_runs.CompensationFailed() | side_runs.CompensationUnknown():
            _on_compensation_ended(execution, event, payload)
        case side_runs.OrderClaimed():
            run = execution.runs[event.step_run_id or ""]
            run.lease.worker_id, run.lease.lease_epoch = payload.worker_id, payload.lease_epoch
        case side_runs.HandlerStarted():
            _on_handler_started(execution, event, payload)
        case side_runs.HandlerSkipped():
            _remove_pending_handler(execution, payload.key)
        case side_runs.HandlerDone() | side_runs.HandlerFailed():
            _end_side_run(execution, event, stopped=isinstance(payload, side_runs.HandlerFailed) and payload.stopped)
        case side_runs.AsyncStarted():
            _on_async_started(execution, event, payload)
        case side_runs.AsyncDone():
            _end_side_run(execution, event, stopped=payload.stopped)
            return None if payload.tolerated else payload.error
        case _:
            assert_never(payload)
    return None


def keep_for_handlers(execution: Execution, event: Event) -> None:
    """Put the event on the agenda of each step run that has a handler for it.

    A step run does not handle its own events (ADV-01), except the due date and escalation of its human task
    (HUM-04)."""
    own_event = as_own_event(event)
    if own_event is None:
        return
    sender_run = execution.runs.get(event.step_run_id or "")
    # The events of a handler start no handler of its own step, or one could start itself forever.
    sender = sender_run.side_run.of if sender_run is not None and sender_run.side_run is not None else None
    for run_id, names in execution.side_work.handlers.items():
        for index, name in enumerate(names):
            if name == own_event.name and run_id != sender and reaches_run(run_id, event):
                # One event may concern several handlers, even of one step run: each has its own key in the agenda.
                key = f"{event.event_id}/{run_id}/{index}"
                execution.side_work.pending_handlers[key] = PendingHandler(run_id, index, own_event)
                execution.agenda[key] = Due.HANDLE


def note_child(run: StepRun, payload: TaskProcessed) -> None:
    """Remember a nested execution that can be compensated if this step run succeeds (design.md §8)."""
    if child := child_of(payload):
        if run.loop is None:
            run.progress.children = (*run.progress.children, child)
        else:
            run.loop.begun[payload.path].children += (child,)


def child_of(payload: TaskProcessed) -> str | None:
    helpers = payload.outcome.helpers.get(CHILD)
    child = helpers.get("compensable") if helpers is not None else None
    return child if isinstance(child, str) else None


def forget_handlers(execution: Execution, run_id: str) -> None:
    """Forget the handlers of a step run that is over, and the events that wait for them."""
    if execution.side_work.handlers.pop(run_id, None) is not None:
        for key in [key for key, pending in execution.side_work.pending_handlers.items() if pending.owner == run_id]:
            del execution.side_work.pending_handlers[key]
            execution.agenda.pop(key, None)


def _on_registered(saga: Saga, payload: side_runs.CompensationRegistered) -> None:
    saga.registered[payload.registration_id] = payload
    if payload.job_id is not None:
        saga.jobs[payload.job_id] = None


def _on_requested(execution: Execution, payload: side_runs.CompensationRequested) -> None:
    saga = _saga_of(execution)
    for registration_id in payload.registrations:
        saga.todo[registration_id] = saga.registered.pop(registration_id)
    # One at a time: the end of the compensation under way puts the next one on the agenda.
    if saga.under_way is None:
        execution.agenda[COMPENSATE] = Due.COMPENSATE


def _on_compensation_started(execution: Execution, event: Event, payload: side_runs.CompensationStarted) -> None:
    saga = _saga_of(execution)
    registration = saga.under_way = saga.todo.pop(payload.registration_id)
    del execution.agenda[COMPENSATE]
    side_run = SideRun(kind=SideRunKind.COMPENSATION, of=payload.registration_id)
    position = Position(task=registration.task, iter=registration.iter)
    token = StepToken(token_id="", args=registration.args, meta={})
    run = _begin_side_run(execution, event, side_run, payload.order_id, token, position)
    # `ctx` as it was when the step was done: a compensation undoes that work with the variables of that time.
    run.lease.pool, run.ctx = registration.pool, dict(registration.ctx)


def _on_compensation_ended(
    execution: Execution,
    event: Event,
    payload: side_runs.CompensationDone | side_runs.CompensationFailed | side_runs.CompensationUnknown,
) -> None:
    saga = _saga_of(execution)
    _end_side_run(execution, event, stopped=isinstance(payload, side_runs.CompensationUnknown))
    saga.under_way = None
    # The first error is the one that the execution fails with. The compensations that are left run all the same.
    if not isinstance(payload, side_runs.CompensationDone) and saga.error is None:
        saga.error = _compensation_error(event, payload)
    if saga.todo:
        execution.agenda[COMPENSATE] = Due.COMPENSATE
    else:
        _release_waiting_tokens(execution, saga)


def _release_waiting_tokens(execution: Execution, saga: Saga) -> None:
    """Nothing is left to undo: enqueue the tokens that waited for it (SAGA-02)."""
    for token_id in saga.waiting:
        execution.tokens[token_id].held = None
        execution.agenda[token_id] = Due.ENQUEUE
    saga.waiting = {}


def on_cancelled(execution: Execution, payload: PlaybookCancelled) -> None:
    """Return compensations that have not begun to the registered ones, unless the cancellation compensates (O-02)."""
    saga = execution.side_work.saga
    if saga is None or payload.compensate:
        return
    # `todo` has the last registration first, `registered` the first one. A later request needs that order.
    saga.registered.update(reversed(saga.todo.items()))
    saga.todo = {}
    execution.agenda.pop(COMPENSATE, None)


def _on_handler_started(execution: Execution, event: Event, payload: side_runs.HandlerStarted) -> None:
    _remove_pending_handler(execution, payload.key)
    owner = execution.runs[payload.owner]
    side_run = SideRun(
        kind=SideRunKind.HANDLER,
        of=payload.owner,
        index=payload.handler,
        event=payload.event,
        interrupting=payload.interrupting,
    )
    position = Position(task=payload.task, iter=owner.progress.position.iter)
    run = _begin_side_run(execution, event, side_run, payload.order_id, owner.token, position)
    _copy_owner_fields(run, owner)
    if payload.interrupting:
        _stop_body(execution, owner, event.ts)


def _on_async_started(execution: Execution, event: Event, payload: side_runs.AsyncStarted) -> None:
    owner = execution.runs[payload.owner]
    side_run = SideRun(
        kind=SideRunKind.ASYNC,
        of=payload.owner,
        task=payload.task,
        tolerated=payload.tolerated,
        task_run_id=payload.task_run_id,
        around=payload.around,
    )
    run = _begin_side_run(execution, event, side_run, payload.order_id, owner.token, payload.position)
    _copy_owner_fields(run, owner)
    run.ctx = dict(payload.ctx) if payload.around else None


def wrote(execution: Execution, step_run_id: str, patch: dict[str, Any]) -> None:
    """Add a write to the captured `ctx` of a side run, so that the next worker reads it too (SAGA-01)."""
    run = execution.runs[step_run_id]
    if run.ctx is not None:
        run.ctx = patched(run.ctx, patch)


def _end_side_run(execution: Execution, event: Event, *, stopped: bool) -> None:
    """Remove a side run that has ended or was stopped."""
    assert event.step_run_id is not None
    run = execution.runs.pop(event.step_run_id)
    del execution.side_work.step_runs[run.step_run_id]
    assert run.lease.order_id is not None, "a side run has an order as long as it lasts"
    del execution.order_states.open[run.lease.order_id]
    # WITHDRAWN equals no epoch: the worker of a stopped run is answered "cancelled", not "duplicate".
    execution.order_states.closed[run.lease.order_id] = WITHDRAWN if stopped else run.lease.lease_epoch


def _stop_body(execution: Execution, owner: StepRun, at: float) -> None:
    """Stop the body of a step run that an interrupting handler replaces. The step run itself stays open."""
    close_all(execution, owner, at)
    for order_id in owner.loop.ranges if owner.loop else (owner.lease.order_id,) if owner.lease.order_id else ():
        del execution.order_states.open[order_id]
        execution.order_states.closed[order_id] = WITHDRAWN
    owner.lease.order_id, owner.lease.worker_id, owner.lease.lease_epoch, owner.loop = None, None, 0, None
    # Nothing that was due for the body may happen beside the handler that replaces it.
    execution.agenda.pop(owner.step_run_id, None)
    execution.open_waits.listeners.pop(owner.step_run_id, None)
    forget_handlers(execution, owner.step_run_id)


def _copy_owner_fields(run: StepRun, owner: StepRun) -> None:
    """Copy pool and `vars` of the owner to its side run."""
    run.lease.pool = owner.lease.pool
    run.dialect.vars = dict(owner.dialect.vars)


def _remove_pending_handler(execution: Execution, key: str) -> None:
    del execution.side_work.pending_handlers[key]
    del execution.agenda[key]


def _begin_side_run(
    execution: Execution, event: Event, side_run: SideRun, order_id: str, token: StepToken, position: Position
) -> StepRun:
    assert event.step_run_id is not None
    assert event.step is not None
    run = execution.runs[event.step_run_id] = StepRun(
        step_run_id=event.step_run_id,
        step=event.step,
        event_id=event.event_id,
        token=token,
        progress=StepProgress(position=position),
        lease=StepLease(order_id=order_id),
        timing=StepTiming(started_at=event.ts),
        side_run=side_run,
    )
    execution.side_work.step_runs[run.step_run_id] = None
    execution.order_states.open[order_id] = run.step_run_id
    return run


def _saga_of(execution: Execution) -> Saga:
    if execution.side_work.saga is None:
        execution.side_work.saga = Saga()
    return execution.side_work.saga


def _compensation_error(event: Event, payload: side_runs.CompensationFailed | side_runs.CompensationUnknown) -> Error:
    if isinstance(payload, side_runs.CompensationUnknown):
        message = f'whether step "{event.step}" was compensated is not known: {payload.reason}'
        return Error(kind="compensation.failed", message=message)
    message = f'the compensation of step "{event.step}" failed: {payload.error.message}'
    return Error(kind="compensation.failed", message=message, cause=payload.error)
