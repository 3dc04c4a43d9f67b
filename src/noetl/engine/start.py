"""Starting: the first events of every run, in the order of SRV-01."""

from __future__ import annotations

from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.commands import StartExecution
from noetl.engine.compensation import request
from noetl.engine.decision import Decision, Draft, EndExecution
from noetl.engine.execution import Execution
from noetl.engine.identity import run_id_of, token_id_of
from noetl.engine.pipeline.patches import overlaid
from noetl.engine.plan import Plan
from noetl.events.control import PlaybookPaused
from noetl.events.executions import ExecutionRequested, Final, PlaybookProcessed, RequestEvaluated, WorkflowStarted
from noetl.events.outcomes import Error
from noetl.events.steps import CtxPatched
from noetl.events.tokens import TokenCreated, TokenEnqueued
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored


def start(plan: Plan, execution: Execution, command: StartExecution) -> Decision:
    """Request, evaluation, start and the start token: one decision, so that nothing is half begun."""
    net = plan.net
    draft = Draft(execution, command.at, execution.execution_id)
    draft.add(
        ExecutionRequested(
            path=net.path,
            version=net.version,
            net_hash=command.net_hash,
            trace_id=execution.trace_id,
            payload=command.payload,
            parent_execution_id=command.parent_execution_id,
            parent_step_run_id=command.parent_step_run_id,
            depth=command.depth,
            compensates=command.compensates,
            carried=command.carried,
            late_after_s=_expected_durations(plan, command),
        )
    )
    if command.refused is not None:
        draft.add(PlaybookProcessed(status=Final.FAILED, error=command.refused))
        draft.add_effect(EndExecution(Final.FAILED))
        return draft.decision()
    draft.add(RequestEvaluated(name=net.name, dialect=net.dialect))
    carried = command.carried
    entry, args = (net.entry, {}) if carried is None else (carried.step, carried.args)
    workload = overlaid(net.workload, command.payload)
    draft.add(WorkflowStarted(workload=workload, entry=entry))
    try:
        begins_anew = net.ctx is not None and carried is None and command.compensates is None
        ctx = _initial_ctx(net.ctx, workload, execution, command.at) if begins_anew else {}
    except (TemplateError, ToolError) as problem:
        error = Error(kind=problem.kind, message=f"the ctx of the playbook: {problem}")
        draft.add(PlaybookProcessed(status=Final.FAILED, error=error))
        draft.add_effect(EndExecution(Final.FAILED))
        return draft.decision()
    if command.compensates is not None:
        return _undoing(draft, execution, command)
    token_id = token_id_of(execution.execution_id)
    about: dict[str, Any] = {"step": entry, "step_run_id": run_id_of(token_id)}
    draft.add(TokenCreated(token_id=token_id, step=entry, path=net.path, version=net.version, args=args), **about)
    draft.add(TokenEnqueued(token_id=token_id), **about)
    if ctx:  # nothing reads it before the token is admitted, which is the next decision
        draft.add(CtxPatched(patch=ctx, previous={}))
    if command.paused:
        draft.add(PlaybookPaused(reason=command.held or "its parent is paused"))
    return draft.decision()


def _expected_durations(plan: Plan, command: StartExecution) -> tuple[float, ...]:
    """After each of them the execution is late; one that only undoes another has none."""
    if command.compensates is not None or command.refused is not None:
        return ()
    own = (one.after_s for one in plan.net.notifications if one.after_s is not None)
    return tuple(sorted({*own, *command.late_after_s}))


def _initial_ctx(
    written: Authored | None, workload: dict[str, Any], execution: Execution, now: float
) -> dict[str, Any]:
    """What the context begins with: nothing has happened yet, so only the input can be read."""
    names = {"workload": workload, "execution_id": execution.execution_id}
    rendered = render(written, Scope(names), now=now, keys=True) if written is not None else {}
    if not isinstance(rendered, dict):
        raise TemplateError(f"ctx must be a mapping, this gave {type(rendered).__name__}")
    return rendered


def _undoing(draft: Draft, execution: Execution, command: StartExecution) -> Decision:
    """What another execution had registered is registered here, and asked for at once; no token moves (design.md
    §8)."""
    for registration in command.registrations:
        about: dict[str, Any] = {
            "step": registration.step,
            "step_run_id": registration.owner,
            "event_id": registration.registration_id,
        }
        draft.add(registration, **about)
    request(draft, execution, "parent")
    if command.paused:
        draft.add(PlaybookPaused(reason="its parent is paused"))
    return draft.decision()
