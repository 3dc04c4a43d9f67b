"""Event handlers: tasks that run beside an active step when an event arrives, or instead of its body (ADV-01, O-34).

A handler may write `ctx` and never takes a transition. An interrupting handler stops the body of its step. When that
handler has ended, successfully or not, the step ends with the boundary event `step.interrupted`.
"""

from __future__ import annotations

from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.decision import Decision, DispatchStep, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.identity import order_id_of
from noetl.engine.pipeline.scopes import Views
from noetl.engine.plan import Plan
from noetl.engine.scopes import token_of
from noetl.engine.side_runs.orders import event_names
from noetl.engine.waits.due_timers import stop_step_run
from noetl.events.outcomes import Error
from noetl.events.side_runs import HandlerSkipped, HandlerStarted
from noetl.events.v2_case_positions import OwnEvent
from noetl.net.net import Handler, Transition
from noetl.templates.render import holds
from noetl.templates.scope import Scope


def handled_events(step: Transition) -> tuple[str, ...]:
    """The names of the events that the step's handlers wait for, one per handler."""
    return tuple(handler.event for handler in step.handlers.handlers) if step.handlers is not None else ()


def start_handler(plan: Plan, execution: Execution, key: str, at: float) -> Decision:
    """Dispatch the tasks of a handler whose event has arrived, unless its condition does not hold."""
    pending = execution.side_work.pending_handlers[key]
    owner = execution.runs[pending.owner]
    handlers = plan.step(owner.step).handlers
    assert handlers is not None
    handler = handlers.handlers[pending.handler]
    run_id = derived("handler", key)
    # The body has ended and its arcs are about to fire. An interruption would be a second end of the same step run.
    is_over = owner.ended is not None and not owner.step_waits.open
    draft = Draft(execution, at, run_id)
    about: dict[str, Any] = {"step": owner.step, "step_run_id": run_id, "parent_id": execution.log.last_event_id}
    try:
        wanted = handler.when is None or holds(handler.when, _scope(plan, execution, owner, pending.event), now=at)
        error = None
    except (TemplateError, ToolError) as problem:
        wanted, error = False, _handler_error(owner, handler, problem)
    if not wanted or is_over:
        skipped = HandlerSkipped(owner=pending.owner, handler=pending.handler, key=key, error=error)
        draft.add(skipped, run=owner, parent_id=execution.log.last_event_id)
        return draft.decision()
    order_id = order_id_of(run_id)
    # Before the handler starts: the orders of the body must be closed when its worker reports next.
    if handlers.interrupting:
        stop_step_run(draft, execution, owner)
    draft.add(
        HandlerStarted(
            owner=pending.owner,
            handler=pending.handler,
            event=pending.event,
            key=key,
            order_id=order_id,
            task=handler.tasks[0].name,
            interrupting=handlers.interrupting,
        ),
        **about,
    )
    draft.add_effect(DispatchStep(order_id, run_id, pool=owner.lease.pool))
    return draft.decision()


def _scope(plan: Plan, execution: Execution, owner: StepRun, event: OwnEvent) -> Scope:
    namespaces = {
        "args": owner.token.args,
        "ctx": execution.variables.ctx,
        "workload": execution.origin.workload,
        "event": event_names(event),
        "execution_id": execution.execution_id,
        "token": {"args": owner.token.args, **token_of(execution, owner)},
    }
    return Scope(namespaces, steps=Views(execution.outputs.results, plan.load), known=plan.names)


def _handler_error(owner: StepRun, handler: Handler, problem: TemplateError | ToolError) -> Error:
    return Error(kind=problem.kind, message=f'the handler of "{handler.event}" of step "{owner.step}": {problem}')
