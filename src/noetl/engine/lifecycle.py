"""The lifecycle of an execution: whether it may start, its first events, pause, resume and cancel, its end and its
result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from noetl.base.errors import InvalidError, TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine import decision
from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution, StartExecution
from noetl.engine.compensation import request_compensation
from noetl.engine.execution import Execution
from noetl.engine.identity import run_id_of, token_id_of
from noetl.engine.plan import Plan
from noetl.engine.side_runs.orders import stop_side_runs
from noetl.engine.side_runs.state import SideRunKind
from noetl.engine.withdrawal import tokens_except, withdraw
from noetl.events import executions
from noetl.events.control import PlaybookCancelled, PlaybookPaused, PlaybookResumed
from noetl.events.envelope import Event
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Error, TaskResult
from noetl.events.side_runs import AsyncDone, CompensationUnknown, HandlerFailed, HandlerStarted
from noetl.events.steps import CtxPatched, StepFailed
from noetl.events.tokens import TokenCreated, TokenDropped, TokenEnqueued
from noetl.events.waits import StepTimeout
from noetl.net.net import Net
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored, deep_merged

END = "end"  # a step of this name gives the result, when it has one (O-08)


# The first events of every execution, in the order of SRV-01.


def start_execution(plan: Plan, execution: Execution, command: StartExecution) -> decision.Decision:
    """Record the request, its evaluation, the start and the start token in one decision, so that no execution is half
    started."""
    net = plan.net
    draft = decision.Draft(execution, command.at, execution.execution_id)
    draft.add(
        executions.ExecutionRequested(
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
            starter=command.starter,
        )
    )
    if command.refused is not None:
        return _failed_start(draft, command.refused)
    draft.add(executions.RequestEvaluated(name=net.name, dialect=net.dialect))
    carried = command.carried
    entry, args = (net.entry, {}) if carried is None else (carried.step, carried.args)
    workload = deep_merged(net.workload, command.payload)
    draft.add(executions.WorkflowStarted(workload=workload, entry=entry))
    try:
        begins_anew = net.ctx is not None and carried is None and command.compensates is None
        ctx = _initial_ctx(net.ctx, workload, execution, command.at) if begins_anew else {}
    except (TemplateError, ToolError) as problem:
        return _failed_start(draft, Error(kind=problem.kind, message=f"the ctx of the playbook: {problem}"))
    if command.compensates is not None:
        return _start_compensating(draft, execution, command)
    _add_start_token(draft, execution, net, entry, args)
    # After the token: nothing reads `ctx` before the token is admitted, which is the next decision.
    if ctx:
        draft.add(CtxPatched(patch=ctx, previous={}))
    if command.paused:
        draft.add(PlaybookPaused(reason=command.held or "its parent is paused"))
    return draft.decision()


def _failed_start(draft: decision.Draft, error: Error) -> decision.Decision:
    draft.add(executions.PlaybookProcessed(status=executions.Final.FAILED, error=error))
    draft.add_effect(decision.EndExecution(executions.Final.FAILED))
    return draft.decision()


def _add_start_token(draft: decision.Draft, execution: Execution, net: Net, entry: str, args: dict[str, Any]) -> None:
    token_id = token_id_of(execution.execution_id)
    about: dict[str, Any] = {"step": entry, "step_run_id": run_id_of(token_id)}
    draft.add(TokenCreated(token_id=token_id, step=entry, path=net.path, version=net.version, args=args), **about)
    draft.add(TokenEnqueued(token_id=token_id), **about)


def _expected_durations(plan: Plan, command: StartExecution) -> tuple[float, ...]:
    """The durations after which the execution is reported as late. One that only undoes another has none."""
    if command.compensates is not None or command.refused is not None:
        return ()
    own = (notification.after_s for notification in plan.net.notifications if notification.after_s is not None)
    return tuple(sorted({*own, *command.late_after_s}))


def _initial_ctx(
    written: Authored | None, workload: dict[str, Any], execution: Execution, now: float
) -> dict[str, Any]:
    """The initial `ctx` of the playbook. Its templates can only read the workload and the execution's id."""
    names = {"workload": workload, "execution_id": execution.execution_id}
    rendered = render(written, Scope(names), now=now, keys=True) if written is not None else {}
    if not isinstance(rendered, dict):
        raise TemplateError(f"ctx must be a mapping, this gave {type(rendered).__name__}")
    return rendered


def _start_compensating(draft: decision.Draft, execution: Execution, command: StartExecution) -> decision.Decision:
    """Start an execution that undoes another one: take over its registrations and request them all (design.md §8). It
    has no token."""
    for registration in command.registrations:
        about: dict[str, Any] = {
            "step": registration.step,
            "step_run_id": registration.owner,
            "event_id": registration.registration_id,
        }
        draft.add(registration, **about)
    request_compensation(draft, execution, "parent")
    if command.paused:
        draft.add(PlaybookPaused(reason="its parent is paused"))
    return draft.decision()


# Pause, resume and cancel (SRV-07, SRV-11, O-02, O-16).


def control_execution(
    execution: Execution, command: PauseExecution | ResumeExecution | CancelExecution
) -> decision.Decision:
    """Record the request, unless the execution is over or already in that state."""
    if not execution.is_open:
        return decision.Decision(verdict=ReportResult.TERMINAL)
    draft = decision.Draft(execution, command.at, derived("control", execution.execution_id, execution.log.seq))
    parent_id = execution.log.last_event_id
    match command:
        case PauseExecution():
            if execution.lifecycle.paused:
                return decision.Decision(verdict=ReportResult.DUPLICATE)
            draft.add(PlaybookPaused(reason=command.reason, actor=command.actor), parent_id=parent_id)
        case ResumeExecution():
            if not execution.lifecycle.paused:
                return decision.Decision(verdict=ReportResult.DUPLICATE)
            draft.add(PlaybookResumed(reason=command.reason, actor=command.actor), parent_id=parent_id)
        case CancelExecution():
            if execution.lifecycle.cancelled is not None and command.compensate:
                return decision.Decision(verdict=ReportResult.DUPLICATE)
            cancelled = PlaybookCancelled(reason=command.reason, compensate=command.compensate, actor=command.actor)
            draft.add(cancelled, parent_id=parent_id)
            _cancel(draft, execution, command)
    return draft.decision()


def _cancel(draft: decision.Draft, execution: Execution, command: CancelExecution) -> None:
    """Stop everything. Finished steps are undone only if the command asks for it (O-02)."""
    withdraw(draft, execution, tokens_except(execution))
    if command.compensate:
        stop_side_runs(draft, execution, (SideRunKind.ASYNC, SideRunKind.HANDLER), command.reason)
        request_compensation(draft, execution, "cancel", parent_id=execution.log.last_event_id)
        # A paused execution starts no compensation, so it would neither undo anything nor end before a resume.
        if execution.lifecycle.paused:
            resumed = PlaybookResumed(reason=command.reason, actor=command.actor)
            draft.add(resumed, parent_id=execution.log.last_event_id)
    else:
        stop_side_runs(draft, execution, tuple(SideRunKind), command.reason)


# Child effects: a child execution is paused, resumed and cancelled with its parent, and cancelled with the step run
# that waits for it (O-02, O-16). The engine decides about one execution and does not know its children. It only returns
# these effects; the control plane finds the children and decides their commands in the same batch.
_ENDED = "the step that waited for it has ended"
_INTERRUPTED = "the step that waited for it was interrupted"
_TIMED_OUT = "the step that waited for it has timed out"
_RUN_ENDS = (TokenDropped, StepFailed, HandlerFailed, AsyncDone, CompensationUnknown)
# Most events concern no child. One set lookup by class keeps them cheap.
_CHILD_EVENTS = frozenset({PlaybookPaused, PlaybookResumed, PlaybookCancelled, StepTimeout, HandlerStarted, *_RUN_ENDS})


def child_effects(events: Iterable[Event]) -> list[decision.Effect]:
    """The effects of these events on child executions, in the order of the events."""
    child_events = [event for event in events if type(event.payload) in _CHILD_EVENTS]
    return [effect for event in child_events for effect in _effects_of(event)] if child_events else []


def _effects_of(event: Event) -> Iterator[decision.Effect]:
    match event.payload:
        case PlaybookPaused():
            yield decision.PauseChildren(reason="its parent was paused")
        case PlaybookResumed():
            yield decision.ResumeChildren(reason="its parent was resumed")
        case PlaybookCancelled(compensate=compensate):
            yield decision.CancelChildren(reason="its parent was cancelled", compensate=compensate)
        case HandlerStarted(interrupting=True, owner=owner):
            yield from _cancel_children_of(owner, _INTERRUPTED)
        case StepTimeout(action="alternative"):
            yield from _cancel_children_of(event.step_run_id, _TIMED_OUT)
        case TokenDropped() | StepFailed() | HandlerFailed() | AsyncDone() | CompensationUnknown():
            yield from _cancel_children_of(event.step_run_id, _ENDED)
        case _:  # a timeout that is ignored, or a handler beside its step: the step still waits for its child
            pass


def _cancel_children_of(step_run_id: str | None, reason: str) -> Iterator[decision.Effect]:
    if step_run_id is not None:
        yield decision.CancelCalled(step_run_id=step_run_id, reason=reason)


# The end of an execution and its result (SRV-06, O-08).


def finish_execution(execution: Execution, at: float) -> decision.Decision:
    """Close an execution that has no token left."""
    status, error = _final_status(execution)
    draft = decision.Draft(execution, at, execution.log.last_event_id)
    draft.add(executions.WorkflowFinished(status=status))
    draft.add(executions.PlaybookProcessed(status=status, result_of=_result_steps(execution), error=error))
    draft.add_effect(decision.EndExecution(status))
    return draft.decision()


def _final_status(execution: Execution) -> tuple[executions.Final, Error | None]:
    if execution.lifecycle.cancelled is not None:
        return executions.Final.CANCELLED, Error(kind="cancelled", message=execution.lifecycle.cancelled)
    error = execution.failure
    return (executions.Final.COMPLETED if error is None else executions.Final.FAILED), error


def _result_steps(execution: Execution) -> tuple[str, ...]:
    end = execution.outputs.ends.get(END)
    if end is not None and (end.result is not None or end.ref is not None):
        return (END,)
    return tuple(execution.outputs.ends)


def final_result(execution: Execution, payload_of: Callable[[TaskResult], Any]) -> Any:
    """The result of the execution: the payload of its last step, or a mapping by step when tokens ended at several."""
    names = _result_steps(execution)
    if len(names) == 1:
        return payload_of(execution.outputs.ends[names[0]])
    return {name: payload_of(execution.outputs.ends[name]) for name in names} or None


_KIND = "execution.input"


def input_refusal(net: Net, payload: dict[str, Any]) -> Error | None:
    """Why a start with this payload cannot begin; None if it can. Null is no value: it is what a missing one reads
    as."""
    names = [name for name in net.required_inputs if payload.get(name, net.workload.get(name)) is None]
    if not names:
        return None
    listed = ", ".join(f'"{name}"' for name in names)
    what = f"the input {listed}" if len(names) == 1 else f"the inputs {listed}"
    return Error(kind=_KIND, message=f'"{net.path}" needs {what}, which this start does not bring')


def check_required_inputs(net: Net, payload: dict[str, Any]) -> None:
    """InvalidError if a start with this payload is impossible, for callers that wait for the answer."""
    refusal = input_refusal(net, payload)
    if refusal is not None:
        raise InvalidError(refusal.message)
