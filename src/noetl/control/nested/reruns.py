"""Reruns from a step: which recorded approvals the new run relies on, and whether it may (HUM-05).

Servers and the command line on a store ask here, so that both follow the same rule.
"""

from __future__ import annotations

import msgspec

from noetl.engine.approvals import APPROVAL_EVENTS, ApprovedInputs, Consent, approvals_in, reused_approvals
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.rerun_state import Approval, RerunState
from noetl.store.contract import History, SingleRow


async def with_approvals(
    history: History, events: list[Event], carried: RerunState, now: ApprovedInputs, consent: Consent
) -> RerunState:
    """What is carried over, with the approvals it relies on. `events` are those of the old run, whole. RefusedError
    where the inputs are others than those that were approved, and `consent` does not cover it."""
    request = events[0].payload
    assert isinstance(request, ExecutionRequested), "every stream begins with its request (SRV-01)"
    until = events[carried.at - 1]
    found = approvals_in(events[: carried.at]) + await _nested_approvals(history, carried.execution_id, until.ts)
    before = ApprovedInputs(net_hash=request.net_hash, payload=request.payload)
    return msgspec.structs.replace(carried, approvals=reused_approvals(found, before, now, consent))


async def _nested_approvals(history: History, execution_id: str, until: float) -> tuple[Approval, ...]:
    """What people had approved by that moment in executions that this one started, however deep."""
    found: tuple[Approval, ...] = ()
    for child in await history.children(execution_id):
        events = await history.events(child.execution_id, only=SingleRow(types=APPROVAL_EVENTS))
        found += approvals_in(event for event in events if event.ts <= until)
        found += await _nested_approvals(history, child.execution_id, until)
    return found
