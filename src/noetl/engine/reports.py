"""Claims and reports of workers (WRK-03, EVT-06).

Only a report under the current lease changes anything. A repeated report is answered as success and adds nothing; a
late one is recorded as refused. No report can create a token (SRV-04): routing follows from the recorded end of a step.

Also the end of orders that lose one worker after another (reliability.md §3.3).
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.ids import derived
from noetl.engine.commands import ClaimOrder, LoseOrder, RecordReport
from noetl.engine.decision import CloseOrder, Decision, Draft, LeaseOrder, patch_ctx
from noetl.engine.execution import WITHDRAWN, Execution, StepRun, lease_under
from noetl.engine.identity import entry_key
from noetl.engine.loops.reports import record_range
from noetl.engine.loops.state import Range
from noetl.engine.pipeline.payloads import fitted_entry, truncated
from noetl.engine.pipeline.progress import position_after, position_after_entry
from noetl.engine.plan import Plan
from noetl.engine.side_runs.orders import claim_side_run, record_end, start_async_task
from noetl.engine.v2_case.listeners import add_notes, without_notes
from noetl.engine.withdrawal import close_waits
from noetl.events.loops import IterationFailed, IterationStarted
from noetl.events.orders import Entry, Position, Report, ReportResult, Timed
from noetl.events.outcomes import Error
from noetl.events.payloads import EventSource
from noetl.events.steps import CaseStarted, CaseWaiting, ReportRefused, StepDone, StepFailed, StepStarted
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.events.tokens import TokenClaimed
from noetl.net.net import Transition, tasks_of

_CLAIM_BYTES = 500
_ENDS = frozenset({StepDone, StepFailed})


def claim_order(execution: Execution, command: ClaimOrder) -> Decision:
    """Lease the order to a worker under a new epoch, unless another claim came first."""
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
        TokenClaimed(
            token_id=run.token.token_id, order_id=command.order_id, worker_id=command.worker_id, lease_epoch=epoch
        ),
        run=run,
    )
    if run.timing.started_at is None:
        draft.add(StepStarted(worker_id=command.worker_id), run=run)
    priority = execution.tokens[run.token.token_id].priority
    draft.add_effect(LeaseOrder(command.order_id, run.step_run_id, command.worker_id, epoch, priority, run.lease.pool))
    return draft.decision()


def record_report(plan: Plan, execution: Execution, command: RecordReport) -> Decision:
    """Record the entries of a report, or answer why they are not recorded. The order of the checks matters."""
    report = command.report
    run = execution.run_of(report.order_id)
    closed = execution.order_states.closed.get(report.order_id) if run is None else None
    # Before all refusals: the worker only missed the first answer, and must not believe that it lost its lease. This
    # also covers the report that ended the execution.
    if closed == report.lease_epoch:
        return Decision(verdict=ReportResult.DUPLICATE)
    if not execution.is_open:
        return Decision(verdict=ReportResult.TERMINAL)
    lease = lease_under(run, report.order_id)
    if closed == WITHDRAWN:
        return Decision(verdict=ReportResult.CANCELLED)
    # The fence. The epoch alone is not enough: a worker must not report under the lease of another one.
    if run is None or lease is None or lease.lease_epoch != report.lease_epoch or lease.worker_id != report.worker_id:
        return _refusal(execution, command, run)
    if forgery := forged_claim(plan, run, report):
        return _refusal(execution, command, run, forgery)
    # After the fence: values of a refused report are not stored.
    command = with_stored_values(plan, command)
    if isinstance(lease, Range):
        return record_range(plan, execution, run, lease, command)
    return _record_entries(plan, execution, run, command)


def _refusal(execution: Execution, command: RecordReport, run: StepRun | None, forgery: str | None = None) -> Decision:
    """Record a report as refused: its lease is over or, with `forgery`, it claims what only the server decides.

    A worker gets this answer every time; the log has it once."""
    report, verdict = command.report, ReportResult.FENCED if forgery is None else ReportResult.REFUSED
    # Otherwise a worker that does not stop would fill the log with refusals.
    if (report.order_id, report.lease_epoch, report.worker_id) in execution.order_states.refused:
        return Decision(verdict=verdict)
    cause = derived("refused", report.order_id, report.lease_epoch, report.worker_id)
    draft = Draft(execution, command.at, cause)
    draft.add(
        ReportRefused(
            reason="fenced" if forgery is None else "forged",
            order_id=report.order_id,
            worker_id=report.worker_id,
            lease_epoch=report.lease_epoch,
            detail=truncated(forgery, _CLAIM_BYTES) if forgery is not None and len(forgery) > _CLAIM_BYTES else forgery,
        ),
        run=run,
        parent_id=execution.log.last_event_id,
    )
    return Decision(events=tuple(draft.events), verdict=verdict)


def _record_entries(plan: Plan, execution: Execution, run: StepRun, command: RecordReport) -> Decision:
    draft = Draft(execution, command.at, run.event_id)
    position, seen_marks = run.progress.position, set(run.progress.task_events)
    for timed in command.report.entries:
        position = _add_entry(plan, draft, execution, run, timed, position, seen_marks)
        if type(timed.entry) in _ENDS:
            break  # a step run has one end
    if not draft.events:
        return Decision(verdict=ReportResult.DUPLICATE)
    return draft.decision()


def _add_entry(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, timed: Timed, position: Position, seen_marks: set[str]
) -> Position:
    """Add one entry, unless the log has it already; the position after it. `seen_marks` are the keys of the entries
    that were reported of the current task."""
    entry = timed.entry
    about: dict[str, Any] = {"source": EventSource.WORKER, "ts": timed.at}
    match entry:
        case TaskStarted() | TaskProcessed() | KeychainRefreshed() | HookFailed() | JobPlaced():
            if entry.visit != position.visit or entry.attempt != position.attempt:
                return position  # a repeat of what is recorded (EVT-06)
            about["task_run_id"] = entry.task_run_id
            if isinstance(entry, TaskProcessed):
                _add_processed(plan, draft, execution, run, entry, position, about)
                return position_after(position, entry, timed.at)
            mark = entry_key(entry, run.lease.lease_epoch)
            if mark not in seen_marks:
                seen_marks.add(mark)
                draft.add(entry, run=run, **about)
        case CaseStarted():
            if position.case is not None:
                return position
            event_id = draft.add(without_notes(entry), run=run, **about).event_id
            add_notes(draft, run, entry, event_id, **about)
            if entry.decision.set_ctx:
                patch_ctx(draft, execution, run, entry.decision.set_ctx, parent_id=event_id)
            return position_after_entry(position, entry.decision)
        case CaseWaiting():
            draft.add(entry, run=run, **about)
            draft.add_effect(_close(run))
        case StepDone() | StepFailed():
            if run.side_run is not None:
                record_end(draft, execution, run, entry, ts=timed.at)
            else:
                close_waits(draft, execution, run)  # a case rule took a transition before any wait ended (V2C-13)
                draft.add(entry, run=run, **about)
            draft.add_effect(_close(run))
    return position


def _add_processed(
    plan: Plan,
    draft: Draft,
    execution: Execution,
    run: StepRun,
    entry: TaskProcessed,
    position: Position,
    about: dict[str, Any],
) -> None:
    """Add the end of a task run, with what follows from it: notes of case rules, writes to `ctx`, a side run."""
    event_id = draft.add(without_notes(entry), run=run, **about).event_id
    if entry.decision.case is not None:
        add_notes(draft, run, entry, event_id, **about)
    if entry.decision.set_ctx:
        patch_ctx(draft, execution, run, entry.decision.set_ctx, parent_id=event_id)
    if entry.deferred:
        start_async_task(draft, run, plan.step(run.step), entry, position, event_id=event_id)


def _close(run: StepRun) -> CloseOrder:
    order_id = run.lease.order_id
    assert order_id is not None, "a report belongs to an order"
    return CloseOrder(order_id, run.step_run_id, run.lease.lease_epoch)


# The server stores large values of a report separately before any decision (RES-03).
#
# A worker does this itself if it can. The server relies on no worker: state and log never hold more of a report than
# the limit.


def with_stored_values(plan: Plan, command: RecordReport) -> RecordReport:
    """The command with large values of its report stored and replaced by references; the same object if all fit."""
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


# Forgery: reports that claim what only the server decides (SRV-04, WRK-05). They are recorded as refused.

_DECIDING = frozenset({TaskProcessed, CaseStarted, CaseWaiting})


def forged_claim(plan: Plan, run: StepRun, report: Report) -> str | None:
    """The forged part of the report; None for a valid report."""
    if report.surplus:
        return f"a report has no {', '.join(report.surplus)}"
    step = plan.step(run.step)
    if plan.has_rules(run.step):
        return None  # the worker evaluates its rules; routing checks the transitions that they take (V2C-24)
    for timed in report.entries:
        if type(timed.entry) in _DECIDING and (forgery := _forgery_in(step, timed.entry)):
            return forgery
    return None


def _forgery_in(step: Transition, entry: Entry) -> str | None:
    if not isinstance(entry, TaskProcessed) or entry.decision.case is not None:
        return f'step "{step.name}" has no case rules'
    name = entry.decision.next
    if name is not None and not any(task.name == name for task in tasks_of(step)):
        return f'step "{step.name}" has no task "{name}"'
    return None


# After two lost leases an order is given out alone (control/claiming/poison_orders.py). Three further losses are
# therefore the fault of the order itself.
MOST_LEASES = 5
KIND = "lease.lost"


def give_up_order(execution: Execution, command: LoseOrder) -> Decision:
    """Fail what the order runs, if its lease is still the expired one of the command."""
    if not execution.is_open:
        return Decision(verdict=ReportResult.TERMINAL)
    run, lease = execution.run_of(command.order_id), execution.lease_of(command.order_id)
    if run is None or lease is None or lease.lease_epoch != command.seen_epoch:
        return Decision(verdict=ReportResult.FENCED)
    # Nothing is lost by waiting, and the failure would start something new.
    if execution.lifecycle.paused:
        return Decision(verdict=ReportResult.PAUSED)
    draft = Draft(execution, command.at, derived("lost", command.order_id, lease.lease_epoch))
    if isinstance(lease, Range):
        _fail_range(draft, run, lease)
    else:
        _fail(
            draft,
            execution,
            run,
            StepFailed(error=_lost_lease_error(lease.lease_epoch, is_unknown=run.progress.in_task)),
            command.at,
        )
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
        error = _lost_lease_error(span.lease_epoch, is_unknown=begun is not None and begun.in_task)
        draft.add(IterationFailed(index=index, path=path, error=error), **about)


def _lost_lease_error(leases: int, *, is_unknown: bool) -> Error:
    """The error of an order that is given up. `is_unknown`: its last worker was lost inside a task, whose effects may
    have happened (O-06)."""
    message = f"{leases} workers in a row were lost while they ran it"
    return Error(kind=KIND, message=message, details={"leases": leases, "outcome_unknown": is_unknown})
