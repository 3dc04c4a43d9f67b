"""Reporting: what the engine makes of a worker's report (WRK-03, EVT-06).

Only a report under the current lease changes anything. A repeated one is answered as success and adds nothing; a
late one is kept as refused. Nothing in a report can make a token (SRV-04): routing follows from the recorded end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.ids import derived
from noetl.engine.commands import ClaimOrder, RecordReport
from noetl.engine.decision import CloseOrder, Decision, Draft, LeaseOrder, patch_ctx
from noetl.engine.execution import WITHDRAWN, Execution, StepRun, lease_under
from noetl.engine.identity import entry_mark
from noetl.engine.loops.reports import record_range
from noetl.engine.loops.state import Range
from noetl.engine.pipeline.payloads import cut, fitted_entry
from noetl.engine.pipeline.progress import after, entered
from noetl.engine.plan import Plan
from noetl.engine.side_runs.orders import claim_side_run, defer, record_end
from noetl.engine.v2_case.listeners import add_notes, without_notes
from noetl.engine.withdrawal import close_waits
from noetl.events.orders import Entry, Position, Report, ReportResult, Timed
from noetl.events.payloads import EventSource
from noetl.events.steps import ReportRefused, StepDone, StepFailed, StepStarted
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.events.tokens import TokenClaimed
from noetl.events.v2_case_runs import CaseStarted, CaseWaiting
from noetl.net.net import Transition, tasks_of

_CLAIM_BYTES = 500
_ENDS = frozenset({StepDone, StepFailed})


def claim(execution: Execution, command: ClaimOrder) -> Decision:
    """Give the order to a worker under a new epoch, if nobody was quicker."""
    run = execution.run_of(command.order_id)
    lease = lease_under(run, command.order_id)
    # Compare and set on the epoch: of two servers that offer the same order only one can claim it.
    if run is None or lease is None or lease.lease_epoch != command.seen_epoch:
        return Decision(verdict=ReportResult.FENCED)
    if execution.lifecycle.paused:
        return Decision(verdict=ReportResult.PAUSED)  # nothing new is dispatched (SRV-07)
    if run.side_run is not None:
        return claim_side_run(execution, run, command)
    epoch = lease.lease_epoch + 1
    draft = Draft(execution, command.at, run.event_id)
    draft.add(
        TokenClaimed(token_id=run.token_id, order_id=command.order_id, worker_id=command.worker_id, lease_epoch=epoch),
        run=run,
    )
    if run.timing.started_at is None:
        draft.add(StepStarted(worker_id=command.worker_id), run=run)
    priority = execution.tokens[run.token_id].priority
    draft.add_effect(LeaseOrder(command.order_id, run.step_run_id, command.worker_id, epoch, priority, run.lease.pool))
    return draft.decision()


def record(plan: Plan, execution: Execution, command: RecordReport) -> Decision:
    report = command.report
    run = execution.run_of(report.order_id)
    closed = execution.order_states.closed.get(report.order_id) if run is None else None
    # Before all refusals: the worker only missed the answer, and must not be told that it lost its lease.
    if closed == report.lease_epoch:
        return Decision(verdict=ReportResult.DUPLICATE)  # also of the report that ended the execution
    if not execution.is_open:
        return Decision(verdict=ReportResult.TERMINAL)
    lease = lease_under(run, report.order_id)
    if closed == WITHDRAWN:
        return Decision(verdict=ReportResult.CANCELLED)
    # The fence. The epoch alone is not enough: a worker must not report under the lease of another one.
    if run is None or lease is None or lease.lease_epoch != report.lease_epoch or lease.worker_id != report.worker_id:
        return _refused(execution, command, run)
    if claimed := forged_claim(plan, run, report):
        return _refused(execution, command, run, claimed)
    # After the fence: values of a refused report are not stored.
    command = externalised(plan, command)
    if isinstance(lease, Range):
        return record_range(plan, execution, run, lease, command)
    return _recorded(plan, execution, run, command)


def _refused(execution: Execution, command: RecordReport, run: StepRun | None, claimed: str | None = None) -> Decision:
    """Kept as refused: it came under a lease that is over, or with `claimed` it said what is not a worker's to say. A
    worker that goes on, or repeats itself, is told so each time; the log says it once."""
    report, verdict = command.report, ReportResult.FENCED if claimed is None else ReportResult.REFUSED
    # A worker that does not stop would otherwise fill the log with refusals.
    if (report.order_id, report.lease_epoch, report.worker_id) in execution.order_states.refused:
        return Decision(verdict=verdict)
    cause = derived("refused", report.order_id, report.lease_epoch, report.worker_id)
    draft = Draft(execution, command.at, cause)
    draft.add(
        ReportRefused(
            reason="fenced" if claimed is None else "forged",
            order_id=report.order_id,
            worker_id=report.worker_id,
            lease_epoch=report.lease_epoch,
            detail=cut(claimed, _CLAIM_BYTES) if claimed is not None and len(claimed) > _CLAIM_BYTES else claimed,
        ),
        run=run,
        parent_id=execution.last_event_id,
    )
    return Decision(events=tuple(draft.events), verdict=verdict)


def _recorded(plan: Plan, execution: Execution, run: StepRun, command: RecordReport) -> Decision:
    draft = Draft(execution, command.at, run.event_id)
    position, told = run.position, set(run.task_events)
    for timed in command.report.entries:
        position = _entered(plan, draft, execution, run, timed, position, told)
        if type(timed.entry) in _ENDS:
            break  # a step run has one end
    if not draft.events:
        return Decision(verdict=ReportResult.DUPLICATE)
    return draft.decision()


def _entered(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, timed: Timed, position: Position, told: set[str]
) -> Position:
    """Add one entry, unless the log has it already. `told` marks what was reported of the task under way."""
    entry = timed.entry
    about: dict[str, Any] = {"source": EventSource.WORKER, "ts": timed.at}
    match entry:
        case TaskStarted() | TaskProcessed() | KeychainRefreshed() | HookFailed() | JobPlaced():
            if entry.visit != position.visit or entry.attempt != position.attempt:
                return position  # a repeat of what is recorded (EVT-06)
            about["task_run_id"] = entry.task_run_id
            if isinstance(entry, TaskProcessed):
                event_id = draft.add(without_notes(entry), run=run, **about).event_id
                if entry.decision.case is not None:
                    add_notes(draft, run, entry, event_id, **about)
                if entry.decision.set_ctx:
                    patch_ctx(draft, execution, run, entry.decision.set_ctx, parent_id=event_id)
                if entry.deferred:
                    defer(draft, run, plan.step(run.step), entry, position, event_id=event_id)
                return after(position, entry, timed.at)
            mark = entry_mark(entry, run.lease.lease_epoch)
            if mark not in told:
                told.add(mark)
                draft.add(entry, run=run, **about)
        case CaseStarted():
            if position.case is not None:
                return position
            event_id = draft.add(without_notes(entry), run=run, **about).event_id
            add_notes(draft, run, entry, event_id, **about)
            if entry.decision.set_ctx:
                patch_ctx(draft, execution, run, entry.decision.set_ctx, parent_id=event_id)
            return entered(position, entry.decision)
        case CaseWaiting():
            draft.add(entry, run=run, **about)
            draft.add_effect(_close(run))
        case StepDone() | StepFailed():
            if run.side_run is not None:
                record_end(draft, execution, run, entry, ts=timed.at)
            else:
                close_waits(draft, execution, run)  # a rule led on before any of its own waits came (V2C-13)
                draft.add(entry, run=run, **about)
            draft.add_effect(_close(run))
    return position


def _close(run: StepRun) -> CloseOrder:
    order_id = run.lease.order_id
    assert order_id is not None, "whoever reports holds an order"
    return CloseOrder(order_id, run.step_run_id, run.lease.lease_epoch)


# What a worker sent too large is stored apart by the server before anything is decided (RES-03).
#
# A worker does this itself if it can. The server relies on no worker: whatever a report holds, the state and the log
# never hold more than the limit of it.


def externalised(plan: Plan, command: RecordReport) -> RecordReport:
    """The command with every entry of its report as it may be recorded; the very same one when all of them fit."""
    limit_bytes, keep = plan.max_payload_bytes, plan.keep
    changed: dict[int, Timed] = {}
    for index, timed in enumerate(command.report.entries):
        entry = fitted_entry(timed.entry, limit_bytes, keep)
        if entry is not timed.entry:
            changed[index] = Timed(timed.at, entry)
    if not changed:
        return command
    entries = tuple(changed.get(index, timed) for index, timed in enumerate(command.report.entries))
    return msgspec.structs.replace(command, report=msgspec.structs.replace(command.report, entries=entries))


# Forgery: reports that say what is not a worker's to say (SRV-04, WRK-05). They are kept as refused, and start
# nothing.

_DECIDING = frozenset({TaskProcessed, CaseStarted, CaseWaiting})


def forged_claim(plan: Plan, run: StepRun, report: Report) -> str | None:
    """What the report claims and may not; None for an honest one."""
    if report.surplus:
        return f"a report has no {', '.join(report.surplus)}"
    step = plan.step(run.step)
    if plan.has_rules(run.step):
        return None  # its rules are evaluated by the worker, and what they took is checked when it is routed (V2C-24)
    for timed in report.entries:
        if type(timed.entry) in _DECIDING and (claimed := _claim(step, timed.entry)):
            return claimed
    return None


def _claim(step: Transition, entry: Entry) -> str | None:
    if not isinstance(entry, TaskProcessed) or entry.decision.case is not None:
        return f'step "{step.name}" has no case rules'
    name = entry.decision.next
    if name is not None and not any(task.name == name for task in tasks_of(step)):
        return f'step "{step.name}" has no task "{name}"'
    return None
