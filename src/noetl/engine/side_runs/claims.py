"""Claiming a side run: like any order, but that no token moves, and that what must not be repeated is not (SAGA-03)."""

from __future__ import annotations

import msgspec

from noetl.engine.commands import ClaimOrder
from noetl.engine.decision import CloseOrder, Decision, Draft, LeaseOrder
from noetl.engine.execution import Execution, StepRun
from noetl.engine.side_runs.state import SideRunKind
from noetl.events.compensation import CompensationUnknown
from noetl.events.orders import ReportResult
from noetl.events.side_runs import OrderClaimed


def claim_side_run(execution: Execution, run: StepRun, command: ClaimOrder) -> Decision:
    """Give it to a worker under a new epoch. Whoever held it before is gone."""
    epoch = run.lease.lease_epoch + 1
    draft = Draft(execution, command.at, run.event_id)
    if run.in_task and is_once(execution, run):
        return _unknown(draft, run)
    claimed = OrderClaimed(order_id=command.order_id, worker_id=command.worker_id, lease_epoch=epoch)
    draft.add(claimed, run=run)
    draft.add_effect(LeaseOrder(command.order_id, run.step_run_id, command.worker_id, epoch, pool=run.lease.pool))
    return draft.decision()


def is_once(execution: Execution, run: StepRun) -> bool:
    """Whether what had begun of it is never begun again."""
    registration = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
    is_compensation = run.side_run is not None and run.side_run.kind is SideRunKind.COMPENSATION
    return is_compensation and registration is not None and not registration.idempotent


def _unknown(draft: Draft, run: StepRun) -> Decision:
    assert run.side_run is not None
    assert run.lease.order_id is not None
    reason = "its worker was lost while it ran, and it is not idempotent"
    draft.add(CompensationUnknown(registration_id=run.side_run.of, reason=reason), run=run)
    draft.add_effect(CloseOrder(run.lease.order_id, run.step_run_id, run.lease.lease_epoch))
    return msgspec.structs.replace(draft.decision(), verdict=ReportResult.FENCED)
