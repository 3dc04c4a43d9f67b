"""How the events of side runs change the state. Called by `engine.evolve`, which is the only door (EVT-07)."""

from __future__ import annotations

from typing import Any, assert_never

from noetl.engine.event_rules import heard_as, hears
from noetl.engine.execution import WITHDRAWN, Due, Execution, StepLease, StepRun, StepTiming
from noetl.engine.pipeline.patches import written
from noetl.engine.side_runs.state import PendingHandler, Saga, SideRun, SideRunKind
from noetl.engine.waits.evolution import close_all
from noetl.events import side_runs
from noetl.events.control import PlaybookCancelled
from noetl.events.envelope import Event
from noetl.events.orders import Position
from noetl.events.outcomes import Error
from noetl.events.tasks import TaskProcessed

COMPENSATE = "compensate"  # its place in the agenda: an execution undoes one thing at a time
CHILD = "playbook"  # the word under which a task tells that its child can be compensated


Own = (
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


def evolve(execution: Execution, event: Event, payload: Own) -> Error | None:
    """Apply an event of these; why the execution fails with it, if it does."""
    match payload:
        case side_runs.CompensationRegistered():
            _registered(_saga(execution), payload)
        case side_runs.CompensationRequested():
            _requested(execution, payload)
        case side_runs.CompensationStarted():
            _compensation_started(execution, event, payload)
        case side_runs.CompensationDone() | side_runs.CompensationFailed() | side_runs.CompensationUnknown():
            _compensated(execution, event, payload)
        case side_runs.OrderClaimed():
            run = execution.runs[event.step_run_id or ""]
            run.lease.worker_id, run.lease.lease_epoch = payload.worker_id, payload.lease_epoch
        case side_runs.HandlerStarted():
            _handler_started(execution, event, payload)
        case side_runs.HandlerSkipped():
            _remove_pending_handler(execution, payload.key)
        case side_runs.HandlerDone() | side_runs.HandlerFailed():
            _over(execution, event, stopped=isinstance(payload, side_runs.HandlerFailed) and payload.stopped)
        case side_runs.AsyncStarted():
            _async_started(execution, event, payload)
        case side_runs.AsyncDone():
            _over(execution, event, stopped=payload.stopped)
            return None if payload.tolerated else payload.error
        case _:
            assert_never(payload)
    return None


def keep_for_handlers(execution: Execution, event: Event) -> None:
    """Step runs with handlers for this event will see it; nobody handles events of his own (ADV-01), but for what time
    does to his human task (HUM-04)."""
    heard = heard_as(event)
    if heard is None:
        return
    teller = execution.runs.get(event.step_run_id or "")
    sender = teller.side_run.of if teller is not None and teller.side_run is not None else None
    for run_id, names in execution.side_work.handlers.items():
        for index, name in enumerate(names):
            if name == heard.name and run_id != sender and hears(run_id, event):
                # One event may concern several handlers, also of one step run: each has its own place in the agenda.
                key = f"{event.event_id}/{run_id}/{index}"
                execution.side_work.pending_handlers[key] = PendingHandler(run_id, index, heard)
                execution.agenda[key] = Due.HANDLE


def note_child(run: StepRun, payload: TaskProcessed) -> None:
    """A nested execution that can be compensated, should this step run succeed (design.md §8)."""
    if child := child_of(payload):
        if run.loop is None:
            run.children = (*run.children, child)
        else:
            run.loop.begun[payload.path].children += (child,)


def child_of(payload: TaskProcessed) -> str | None:
    told = payload.outcome.helpers.get(CHILD)
    child = told.get("compensable") if told is not None else None
    return child if isinstance(child, str) else None


def forget_handlers(execution: Execution, run_id: str) -> None:
    """A step run is over: what it would have handled is nobody's business."""
    if execution.side_work.handlers.pop(run_id, None) is not None:
        for key in [key for key, one in execution.side_work.pending_handlers.items() if one.owner == run_id]:
            del execution.side_work.pending_handlers[key]
            execution.agenda.pop(key, None)


def _registered(saga: Saga, payload: side_runs.CompensationRegistered) -> None:
    saga.registered[payload.registration_id] = payload
    if payload.job_id is not None:
        saga.jobs[payload.job_id] = None


def _requested(execution: Execution, payload: side_runs.CompensationRequested) -> None:
    saga = _saga(execution)
    for registration_id in payload.registrations:
        saga.todo[registration_id] = saga.registered.pop(registration_id)
    if saga.under_way is None:
        execution.agenda[COMPENSATE] = Due.COMPENSATE


def _compensation_started(execution: Execution, event: Event, payload: side_runs.CompensationStarted) -> None:
    saga = _saga(execution)
    registration = saga.under_way = saga.todo.pop(payload.registration_id)
    del execution.agenda[COMPENSATE]
    side_run = SideRun(kind=SideRunKind.COMPENSATION, of=payload.registration_id)
    position = Position(task=registration.task, iter=registration.iter)
    run = _begin(execution, event, side_run, payload.order_id, args=registration.args, position=position)
    run.lease.pool, run.ctx = registration.pool, dict(registration.ctx)


def _compensated(
    execution: Execution,
    event: Event,
    payload: side_runs.CompensationDone | side_runs.CompensationFailed | side_runs.CompensationUnknown,
) -> None:
    saga = _saga(execution)
    _over(execution, event, stopped=isinstance(payload, side_runs.CompensationUnknown))
    saga.under_way = None
    if not isinstance(payload, side_runs.CompensationDone) and saga.error is None:
        saga.error = _compensation_error(event, payload)
    if saga.todo:
        execution.agenda[COMPENSATE] = Due.COMPENSATE
    else:
        _let_go_on(execution, saga)


def _let_go_on(execution: Execution, saga: Saga) -> None:
    """Nothing is left to undo: the tokens that waited for it come next (SAGA-02)."""
    for token_id in saga.waiting:
        execution.tokens[token_id].held = None
        execution.agenda[token_id] = Due.ENQUEUE
    saga.waiting = {}


def cancelled(execution: Execution, payload: PlaybookCancelled) -> None:
    """What was to be undone and has not begun stays as it is, unless undoing was asked for (O-02)."""
    saga = execution.side_work.saga
    if saga is None or payload.compensate:
        return
    # `todo` has the last thing first; turned round, what is asked for later is undone in the right order again.
    saga.registered.update(reversed(saga.todo.items()))
    saga.todo = {}
    execution.agenda.pop(COMPENSATE, None)


def _handler_started(execution: Execution, event: Event, payload: side_runs.HandlerStarted) -> None:
    _remove_pending_handler(execution, payload.key)
    owner = execution.runs[payload.owner]
    side_run = SideRun(
        kind=SideRunKind.HANDLER,
        of=payload.owner,
        index=payload.handler,
        event=payload.event,
        interrupting=payload.interrupting,
    )
    position = Position(task=payload.task, iter=owner.position.iter)
    run = _begin(execution, event, side_run, payload.order_id, args=owner.args, position=position)
    _copy_owner_fields(run, owner)
    if payload.interrupting:
        _stop_body(execution, owner, event.ts)


def _async_started(execution: Execution, event: Event, payload: side_runs.AsyncStarted) -> None:
    owner = execution.runs[payload.owner]
    side_run = SideRun(
        kind=SideRunKind.ASYNC,
        of=payload.owner,
        task=payload.task,
        tolerated=payload.tolerated,
        task_run_id=payload.task_run_id,
        around=payload.around,
    )
    run = _begin(execution, event, side_run, payload.order_id, args=owner.args, position=payload.position)
    _copy_owner_fields(run, owner)
    run.ctx = dict(payload.ctx) if payload.around else None


def wrote(execution: Execution, step_run_id: str, patch: dict[str, Any]) -> None:
    """A side run reads what it has written itself, also when another worker goes on with it (SAGA-01)."""
    run = execution.runs[step_run_id]
    if run.ctx is not None:
        run.ctx = written(run.ctx, patch)


def _over(execution: Execution, event: Event, *, stopped: bool) -> None:
    """A side run has ended, or nobody wants it any more."""
    assert event.step_run_id is not None
    run = execution.runs.pop(event.step_run_id)
    del execution.side_work.step_runs[run.step_run_id]
    assert run.lease.order_id is not None, "a side run has an order as long as it lasts"
    del execution.order_states.open[run.lease.order_id]
    execution.order_states.closed[run.lease.order_id] = WITHDRAWN if stopped else run.lease.lease_epoch


def _stop_body(execution: Execution, owner: StepRun, at: float) -> None:
    close_all(execution, owner, at)
    for order_id in owner.loop.ranges if owner.loop else (owner.lease.order_id,) if owner.lease.order_id else ():
        del execution.order_states.open[order_id]
        execution.order_states.closed[order_id] = WITHDRAWN
    owner.lease.order_id, owner.lease.worker_id, owner.lease.lease_epoch, owner.loop = None, None, 0, None
    execution.agenda.pop(owner.step_run_id, None)
    execution.open_waits.listeners.pop(owner.step_run_id, None)
    forget_handlers(execution, owner.step_run_id)


def _copy_owner_fields(run: StepRun, owner: StepRun) -> None:
    """What a side run has of the step run it belongs to."""
    run.token_id, run.token_meta = owner.token_id, owner.token_meta
    run.lease.pool = owner.lease.pool
    run.eval_vars.own = dict(owner.eval_vars.own)


def _remove_pending_handler(execution: Execution, key: str) -> None:
    del execution.side_work.pending_handlers[key]
    del execution.agenda[key]


def _begin(execution: Execution, event: Event, side_run: SideRun, order_id: str, **fields: Any) -> StepRun:
    assert event.step_run_id is not None
    assert event.step is not None
    run = execution.runs[event.step_run_id] = StepRun(
        step_run_id=event.step_run_id,
        # It consumes none. Handlers and async tasks are given the token of their owner afterwards, for what templates
        # read.
        token_id="",
        step=event.step,
        token_meta={},
        event_id=event.event_id,
        lease=StepLease(order_id=order_id),
        timing=StepTiming(started_at=event.ts),
        side_run=side_run,
        **fields,
    )
    execution.side_work.step_runs[run.step_run_id] = None
    execution.order_states.open[order_id] = run.step_run_id
    return run


def _saga(execution: Execution) -> Saga:
    if execution.side_work.saga is None:
        execution.side_work.saga = Saga()
    return execution.side_work.saga


def _compensation_error(event: Event, payload: side_runs.CompensationFailed | side_runs.CompensationUnknown) -> Error:
    if isinstance(payload, side_runs.CompensationUnknown):
        message = f'whether step "{event.step}" was compensated is not known: {payload.reason}'
        return Error(kind="compensation.failed", message=message)
    message = f'the compensation of step "{event.step}" failed: {payload.error.message}'
    return Error(kind="compensation.failed", message=message, cause=payload.error)
