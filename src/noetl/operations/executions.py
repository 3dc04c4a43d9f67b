"""Executions as everybody sees them: steering them (SRV-07, SRV-11) and reading their log, as it is or as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from noetl.base.errors import SettledError
from noetl.events.envelope import Event
from noetl.events.orders import ReportResult
from noetl.operations.api_shapes import ExecutionView, Steered
from noetl.store.contract import ExecutionRow, Records, SingleRow, Store

_PAGE = 2_000  # events read at a time: a long log is neither held in memory nor waited for as a whole
_POLL_S = 0.2


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


async def event_pages(
    records: Records, execution_id: str, *, after: int = 0, only: SingleRow | None = None
) -> AsyncIterator[list[Event]]:
    """The log of an execution, page by page."""
    picking = msgspec.structs.replace(only or SingleRow(), limit=_PAGE)
    while True:
        events = await records.events(execution_id, after=after, only=picking)
        if events:
            yield events
            after = events[-1].seq
        if len(events) < _PAGE:
            return


async def followed_events(
    records: Records,
    execution_id: str,
    *,
    after: int = 0,
    only: SingleRow | None = None,
    before_look: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[list[Event]]:
    """The log as it grows, until the execution is over and all of it has been read. `before_look` is called before
    each look for more."""
    while True:
        # The row is read before the events: if it says that the execution is over, its last event is stored already.
        row = await records.execution(execution_id)
        assert row is not None, "the execution was found before it was followed"
        if before_look is not None and row.finished_at is None:
            await before_look()
        async for events in event_pages(records, execution_id, after=after, only=only):
            yield events
            after = events[-1].seq
        if row.finished_at is not None:
            return
        await asyncio.sleep(_POLL_S)
