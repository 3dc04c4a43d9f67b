"""Lost leases: an order that loses one worker after another is given to no further one (reliability.md §3.3).

Its step run fails, as if a worker had said so, and its arcs may take that. Of a loop only the iterations of the order
fail: those that were not begun are recorded as begun, since each has both ends in the log.
"""

from __future__ import annotations

from typing import Any

from noetl.base.ids import derived
from noetl.engine.commands import LoseOrder
from noetl.engine.decision import CloseOrder, Decision, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.state import Range
from noetl.engine.side_runs.orders import record_end
from noetl.events.loops import IterationFailed, IterationStarted
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Error
from noetl.events.steps import StepFailed

# Beyond two, orders are given out alone (control/claiming/poison_orders.py), so three further losses are the order's
# own doing.
MOST_LEASES = 5
KIND = "lease.lost"


def lose(execution: Execution, command: LoseOrder) -> Decision:
    """End what the order was to run, if it is still held under the lease that was found ended."""
    if not execution.is_open:
        return Decision(verdict=ReportResult.TERMINAL)
    run, lease = execution.run_of(command.order_id), execution.lease_of(command.order_id)
    if run is None or lease is None or lease.lease_epoch != command.seen_epoch:
        return Decision(verdict=ReportResult.FENCED)
    if execution.lifecycle.paused:
        return Decision(
            verdict=ReportResult.PAUSED
        )  # nothing is lost by waiting, and its end would start something new
    draft = Draft(execution, command.at, derived("lost", command.order_id, lease.lease_epoch))
    if isinstance(lease, Range):
        _fail_range(draft, run, lease)
    else:
        _fail(draft, execution, run, StepFailed(error=_error(lease.lease_epoch, is_unknown=run.in_task)), command.at)
    draft.add_effect(CloseOrder(command.order_id, run.step_run_id, lease.lease_epoch))
    return draft.decision()


def _fail(draft: Draft, execution: Execution, run: StepRun, failed: StepFailed, at: float) -> None:
    if run.side_run is not None:
        record_end(draft, execution, run, failed, ts=at)
    else:
        draft.add(failed, run=run, on_behalf=True, parent_id=run.event_id)


def _fail_range(draft: Draft, run: StepRun, span: Range) -> None:
    loop = run.loop
    assert loop is not None
    frame = loop.frames[span.path]
    about: dict[str, Any] = {"run": run, "on_behalf": True, "parent_id": frame.event_id}
    for index in span:
        if frame.ended[index]:
            continue
        path = (*span.path, index)
        begun = loop.begun.get(path)
        if begun is None:
            draft.add(IterationStarted(index=index, path=path), **about)
        error = _error(span.lease_epoch, is_unknown=begun is not None and begun.in_task)
        draft.add(IterationFailed(index=index, path=path, error=error), **about)


def _error(leases: int, *, is_unknown: bool) -> Error:
    """`is_unknown`: the last worker vanished in the middle of a task, whose effects may have happened (O-06)."""
    message = f"{leases} workers in a row were lost while they ran it"
    return Error(kind=KIND, message=message, details={"leases": leases, "outcome_unknown": is_unknown})
