"""Control: pause, resume and cancel of an execution, and what follows for its children (SRV-07, SRV-11, O-02, O-16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.base.ids import derived
from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution
from noetl.engine.compensation import request
from noetl.engine.decision import CancelCalled, CancelChildren, Decision, Draft, Effect, PauseChildren, ResumeChildren
from noetl.engine.execution import Execution
from noetl.engine.side_runs.endings import stop_side_runs
from noetl.engine.side_runs.state import SideRunKind
from noetl.engine.withdrawal import all_but, withdraw
from noetl.events.compensation import CompensationUnknown
from noetl.events.control import PlaybookCancelled, PlaybookPaused, PlaybookResumed
from noetl.events.envelope import Event
from noetl.events.orders import ReportResult
from noetl.events.side_runs import AsyncDone, HandlerFailed, HandlerStarted
from noetl.events.steps import StepFailed
from noetl.events.tokens import TokenDropped
from noetl.events.waits import StepTimeout


def control(execution: Execution, command: PauseExecution | ResumeExecution | CancelExecution) -> Decision:
    """What was asked for is recorded, unless the execution is over or is so already."""
    if not execution.is_open:
        return Decision(verdict=ReportResult.TERMINAL)
    draft = Draft(execution, command.at, derived("control", execution.execution_id, execution.seq))
    parent_id = execution.last_event_id
    match command:
        case PauseExecution():
            if execution.lifecycle.paused:
                return Decision(verdict=ReportResult.DUPLICATE)
            draft.add(PlaybookPaused(reason=command.reason), parent_id=parent_id)
        case ResumeExecution():
            if not execution.lifecycle.paused:
                return Decision(verdict=ReportResult.DUPLICATE)
            draft.add(PlaybookResumed(reason=command.reason), parent_id=parent_id)
        case CancelExecution():
            if execution.lifecycle.cancelled is not None and command.compensate:
                return Decision(verdict=ReportResult.DUPLICATE)
            draft.add(PlaybookCancelled(reason=command.reason, compensate=command.compensate), parent_id=parent_id)
            _cancel(draft, execution, command)
    return draft.decision()


def _cancel(draft: Draft, execution: Execution, command: CancelExecution) -> None:
    """Stop everything; what was done is undone only if that was asked for with it (O-02)."""
    withdraw(draft, execution, all_but(execution))
    if command.compensate:
        stop_side_runs(draft, execution, (SideRunKind.ASYNC, SideRunKind.HANDLER), command.reason)
        request(draft, execution, "cancel", parent_id=execution.last_event_id)
        if execution.lifecycle.paused:  # else nothing would be undone, and the execution would not end, before a resume
            draft.add(PlaybookResumed(reason=command.reason), parent_id=execution.last_event_id)
    else:
        stop_side_runs(draft, execution, tuple(SideRunKind), command.reason)


# Child effects: what happens to an execution, or to a step run that waits for a child, happens to the child (O-02,
# O-16).
# The engine decides upon one execution and does not know which children it has. So it says what is to become of them,
# and the control plane decides the commands for the children it finds, in the same batch.
_ENDED = "the step that waited for it has ended"
_INTERRUPTED = "the step that waited for it was interrupted"
_TIMED_OUT = "the step that waited for it has timed out"

_RUN_ENDS = (TokenDropped, StepFailed, HandlerFailed, AsyncDone, CompensationUnknown)
# Most events concern no child. One look at their class is what they cost.
_CONCERNING = frozenset({PlaybookPaused, PlaybookResumed, PlaybookCancelled, StepTimeout, HandlerStarted, *_RUN_ENDS})


def child_effects(events: Iterable[Event]) -> list[Effect]:
    """What these events mean for children, in their order."""
    concerning = [event for event in events if type(event.payload) in _CONCERNING]
    return [effect for event in concerning for effect in _effects_of(event)] if concerning else []


def _effects_of(event: Event) -> Iterator[Effect]:
    match event.payload:
        case PlaybookPaused():
            yield PauseChildren(reason="its parent was paused")
        case PlaybookResumed():
            yield ResumeChildren(reason="its parent was resumed")
        case PlaybookCancelled(compensate=compensate):
            yield CancelChildren(reason="its parent was cancelled", compensate=compensate)
        case HandlerStarted(interrupting=True, owner=owner):
            yield from _called_by(owner, _INTERRUPTED)
        case StepTimeout(action="alternative"):
            yield from _called_by(event.step_run_id, _TIMED_OUT)
        case TokenDropped() | StepFailed() | HandlerFailed() | AsyncDone() | CompensationUnknown():
            yield from _called_by(event.step_run_id, _ENDED)
        case _:  # a timeout that only tells of itself, a handler beside its step: the step goes on waiting
            pass


def _called_by(step_run_id: str | None, reason: str) -> Iterator[Effect]:
    if step_run_id is not None:
        yield CancelCalled(step_run_id=step_run_id, reason=reason)
