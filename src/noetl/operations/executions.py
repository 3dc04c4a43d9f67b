"""Executions as everybody sees them, and steering them: pause, resume, cancel (SRV-07, SRV-11)."""

from __future__ import annotations

from noetl.base.errors import SettledError
from noetl.events.orders import ReportResult
from noetl.operations.api_shapes import ExecutionView, Steered
from noetl.store.contract import ExecutionRow, Store


def execution_view(row: ExecutionRow) -> ExecutionView:
    return ExecutionView(**row.readable())


async def steered(store: Store, row: ExecutionRow, action: str, verdict: ReportResult) -> Steered:
    """What became of it. SettledError for an execution that is over."""
    if verdict not in (ReportResult.ACCEPTED, ReportResult.DUPLICATE):
        raise SettledError(f"execution {row.execution_id} has ended, and what has ended stays as it is")
    now = await store.execution(row.execution_id)
    assert now is not None, "executions are not deleted while they are steered"
    changed = verdict is ReportResult.ACCEPTED
    return Steered(execution_id=row.execution_id, action=action, changed=changed, execution=execution_view(now))
