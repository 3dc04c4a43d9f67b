"""When an execution is over, how it ended and what it gives back (SRV-06, O-08)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine.decision import Decision, Draft, EndExecution
from noetl.engine.execution import Execution
from noetl.events.executions import Final, PlaybookProcessed, WorkflowFinished
from noetl.events.outcomes import Error, TaskResult

END = "end"  # a step of this name gives the result, when it has one (O-08)


def finish(execution: Execution, at: float) -> Decision:
    """Close an execution in which no token is left."""
    status, error = _ending(execution)
    draft = Draft(execution, at, execution.last_event_id)
    draft.add(WorkflowFinished(status=status))
    draft.add(PlaybookProcessed(status=status, result_of=_result_of(execution), error=error))
    draft.add_effect(EndExecution(status))
    return draft.decision()


def _ending(execution: Execution) -> tuple[Final, Error | None]:
    if execution.lifecycle.cancelled is not None:
        return Final.CANCELLED, Error(kind="cancelled", message=execution.lifecycle.cancelled)
    error = execution.failure
    return (Final.COMPLETED if error is None else Final.FAILED), error


def _result_of(execution: Execution) -> tuple[str, ...]:
    end = execution.outputs.ends.get(END)
    if end is not None and (end.result is not None or end.ref is not None):
        return (END,)
    return tuple(execution.outputs.ends)


def final_result(execution: Execution, payload_of: Callable[[TaskResult], Any]) -> Any:
    """The execution's own result: the terminal step's payload, or a mapping of steps when several tokens ended."""
    names = _result_of(execution)
    if len(names) == 1:
        return payload_of(execution.outputs.ends[names[0]])
    return {name: payload_of(execution.outputs.ends[name]) for name in names} or None
