"""Control: pause, resume and cancel of a whole execution (SRV-07, SRV-11, O-02, O-16)."""

from __future__ import annotations

from noetl.base.ids import derived
from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution
from noetl.engine.compensation import request
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution
from noetl.engine.side_runs.endings import stop_side_runs
from noetl.engine.side_runs.state import SideRunKind
from noetl.engine.withdrawal import all_but, withdraw
from noetl.events.control import PlaybookCancelled, PlaybookPaused, PlaybookResumed
from noetl.events.orders import ReportResult


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
