"""Handlers: tasks that run beside an active step when an event comes, or instead of its body (ADV-01, O-34).

They may write `ctx` and never take a transition. An interrupting one stops the body; once it has ended, whichever way,
the step ends with the boundary event `step.interrupted`.
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
from noetl.engine.waits.due_timers import stop
from noetl.events.outcomes import Error
from noetl.events.side_runs import HandlerSkipped, HandlerStarted
from noetl.events.v2_case_positions import OwnEvent
from noetl.net.net import Transition
from noetl.net.waits import Handler
from noetl.templates.render import holds
from noetl.templates.scope import Scope


def handled_events(step: Transition) -> tuple[str, ...]:
    """The event that each handler of the step waits for."""
    return tuple(handler.event for handler in step.handlers.handlers) if step.handlers is not None else ()


def handle(plan: Plan, execution: Execution, key: str, at: float) -> Decision:
    """An event has come for a handler: begin its tasks, unless its condition says no."""
    summons = execution.side_work.pending_handlers[key]
    owner = execution.runs[summons.owner]
    handlers = plan.step(owner.step).handlers
    assert handlers is not None
    handler = handlers.handlers[summons.handler]
    run_id = derived("handler", key)
    is_over = owner.ended is not None and not owner.step_waits.open  # its arcs are about to be settled
    draft = Draft(execution, at, run_id)
    about: dict[str, Any] = {"step": owner.step, "step_run_id": run_id, "parent_id": execution.last_event_id}
    try:
        wanted = handler.when is None or holds(handler.when, _scope(plan, execution, owner, summons.event), now=at)
        error = None
    except (TemplateError, ToolError) as problem:
        wanted, error = False, _broken(owner, handler, problem)
    if not wanted or is_over:
        skipped = HandlerSkipped(owner=summons.owner, handler=summons.handler, key=key, error=error)
        draft.add(skipped, run=owner, parent_id=execution.last_event_id)
        return draft.decision()
    order_id = order_id_of(run_id)
    if handlers.interrupting:
        stop(draft, execution, owner)
    draft.add(
        HandlerStarted(
            owner=summons.owner,
            handler=summons.handler,
            event=summons.event,
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
        "args": owner.args,
        "ctx": execution.ctx,
        "workload": execution.origin.workload,
        "event": event_names(event),
        "execution_id": execution.execution_id,
        "token": {"args": owner.args, **token_of(execution, owner)},
    }
    return Scope(namespaces, steps=Views(execution.outputs.results, plan.load), known=plan.names)


def _broken(owner: StepRun, handler: Handler, problem: TemplateError | ToolError) -> Error:
    return Error(kind=problem.kind, message=f'the handler of "{handler.event}" of step "{owner.step}": {problem}')
