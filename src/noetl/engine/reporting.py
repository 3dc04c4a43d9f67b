"""Reporting: what the engine makes of a worker's report (WRK-03, EVT-06).

Only a report under the current lease changes anything. A repeated one is answered as success and adds nothing; a
late one is kept as refused. Nothing in a report can make a token (SRV-04): routing follows from the recorded end.
"""

from __future__ import annotations

from noetl.engine.commands import ClaimOrder, RecordReport
from noetl.engine.decision import CloseOrder, Decision, Draft, LeaseOrder
from noetl.engine.execution import Execution, StepRun
from noetl.engine.patching import patch_ctx
from noetl.ids import derived
from noetl.pipeline.progress import after
from noetl.records.events import (
    ReportRefused,
    StepDone,
    StepFailed,
    StepStarted,
    TaskProcessed,
    TaskStarted,
    TokenClaimed,
)
from noetl.records.orders import Report, Timed, Verdict
from noetl.records.position import Position
from noetl.records.taxonomy import Source


def claim(execution: Execution, command: ClaimOrder) -> Decision:
    """Give the order to a worker under a new epoch, if nobody was quicker."""
    run = execution.run_of(command.order_id)
    if run is None or run.lease_epoch != command.seen_epoch:
        return Decision(verdict=Verdict.FENCED)
    epoch = run.lease_epoch + 1
    draft = Draft(execution, command.at, derived(command.order_id, epoch))
    draft.add(
        TokenClaimed(token_id=run.token_id, order_id=command.order_id, worker_id=command.worker_id, lease_epoch=epoch),
        run=run,
        parent_id=run.event_id,
    )
    if run.lease_epoch == 0:
        draft.add(StepStarted(worker_id=command.worker_id), run=run, parent_id=run.event_id)
    draft.owe(LeaseOrder(command.order_id, run.step_run_id, command.worker_id, epoch))
    return draft.decision()


def record(execution: Execution, command: RecordReport) -> Decision:
    report = command.report
    if not execution.is_open:
        return Decision(verdict=Verdict.TERMINAL)
    run = execution.run_of(report.order_id)
    if run is None and execution.closed.get(report.order_id) == report.lease_epoch:
        return Decision(verdict=Verdict.DUPLICATE)
    if run is None or run.lease_epoch != report.lease_epoch or run.worker_id != report.worker_id:
        return _refused(execution, command, run)
    return _recorded(execution, run, command)


def _refused(execution: Execution, command: RecordReport, run: StepRun | None) -> Decision:
    report = command.report
    draft = Draft(execution, command.at, derived("refused", report.order_id, report.lease_epoch, execution.seq))
    draft.add(
        ReportRefused(
            reason="fenced",
            order_id=report.order_id,
            worker_id=report.worker_id,
            lease_epoch=report.lease_epoch,
        ),
        run=run,
        parent_id=execution.last_event_id,
    )
    return Decision(events=tuple(draft.events), verdict=Verdict.FENCED)


def _recorded(execution: Execution, run: StepRun, command: RecordReport) -> Decision:
    draft = Draft(execution, command.at, run.event_id)
    position = run.position
    for timed in command.report.entries:
        position = _entered(draft, execution, run, command.report, timed, position)
    if not draft.events:
        return Decision(verdict=Verdict.DUPLICATE)
    return draft.decision()


def _entered(
    draft: Draft, execution: Execution, run: StepRun, report: Report, timed: Timed, position: Position
) -> Position:
    """Add one entry, unless the log has it already."""
    entry = timed.entry
    about = {"source": Source.WORKER, "ts": timed.at}
    match entry:
        case TaskStarted() | TaskProcessed():
            if (entry.visit, entry.attempt) != (position.visit, position.attempt):
                return position  # a repeat of what is recorded (EVT-06)
            event_id = _entry_id(report, entry.task_run_id, entry.event_type)
            draft.add(entry, run=run, event_id=event_id, task_run_id=entry.task_run_id, **about)
            if isinstance(entry, TaskProcessed):
                if entry.decision.set_ctx:
                    patch_ctx(draft, execution, run, entry.decision.set_ctx, parent_id=event_id)
                return after(position, entry, timed.at)
        case StepDone() | StepFailed():
            event_id = _entry_id(report, run.step_run_id, entry.event_type)
            draft.add(entry, run=run, event_id=event_id, **about)
            draft.owe(CloseOrder(report.order_id, run.step_run_id, run.lease_epoch))
    return position


def _entry_id(report: Report, run_id: str, event_type: str) -> str:
    return derived(report.order_id, report.lease_epoch, run_id, event_type)
