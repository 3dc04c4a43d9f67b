"""Executions as everybody sees them: steering them (SRV-07, SRV-11), explaining them, and reading and following logs.

An explanation says where an execution stands and why: its live tokens, what runs beside them, and what would move it.
It is made from the state of the execution and the rows of the store that say what it waits for, for a server and for a
local store alike. Only a server knows which workers could take its orders: `obstacles`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from noetl.base.errors import SettledError
from noetl.control.views import side_run_views, token_views
from noetl.control.views.side_run_views import SideRunView
from noetl.control.views.token_views import TokenView, sentences_of
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Error
from noetl.events.steps import StepFailed
from noetl.operations.api_shapes import ExecutionView, Steered
from noetl.operations.results import newest_event
from noetl.store.contract import ExecutionRow, Records, SingleRow, Store
from noetl.store.human_tasks import TaskState

_PAGE = 2_000  # events read at a time: a long log is neither held in memory nor waited for as a whole
_FAILURES = 100  # how many failed steps are searched: arcs may have handled thousands of failures
# On a local store nobody tells of new events, so the log is asked again.
_POLL_S = 0.2


def execution_view(row: ExecutionRow) -> ExecutionView:
    return ExecutionView(**row.readable())


async def end_error(records: Records, row: ExecutionRow) -> Error | None:
    """The error that an execution ended with; none while it runs, or when it completed."""
    if row.finished_at is None:
        # Not looked for: to find that there is none would read all of its history, and people look at what runs.
        return None
    end = await newest_event(records, row.execution_id, PlaybookProcessed.event_type)
    return end.payload.error if end is not None and isinstance(end.payload, PlaybookProcessed) else None


async def failed_step(records: Records, row: ExecutionRow, error: Error | None) -> str | None:
    """The step whose error ended the execution, so that no view names one step and shows the error of another.

    Several steps may have failed, and arcs may have handled some of it. Without a match it is the step that failed
    last. A cancelled execution ended by no step, whatever failed before."""
    if error is None or row.status != "failed":
        return None
    only = SingleRow(types=(StepFailed.event_type,), limit=_FAILURES, newest=True)
    failures = await records.events(row.execution_id, only=only)
    behind = (error, error.cause)
    own = (one for one in failures if isinstance(one.payload, StepFailed) and one.payload.error in behind)
    found = next(own, failures[-1] if failures else None)
    return found.step if found is not None else None


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


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`sentences` say what holds it; `stuck` is true when nothing that is under way will move it by itself."""

    execution_id: str
    status: str
    stuck: bool
    sentences: list[str]
    tokens: list[TokenView]
    side_runs: list[SideRunView] = []


async def live_tokens(store: Store, execution: Execution) -> list[TokenView]:
    """The oldest first."""
    execution_id, states = execution.execution_id, (TaskState.OPEN, TaskState.CLAIMED)
    return token_views.tokens_of(
        execution,
        await store.orders(execution_id),
        await store.waits.of(execution_id),
        await store.tasks.list(states=states, execution_id=execution_id),
    )


async def live_side_runs(store: Store, execution: Execution, now: float) -> list[SideRunView]:
    """What runs beside the tokens, the oldest first, and what is to be undone after that."""
    if not execution.side_work.step_runs and execution.side_work.saga is None:
        return []
    return side_run_views.side_runs_of(execution, await store.orders(execution.execution_id), now)


async def explanation_of(
    store: Store, row: ExecutionRow, execution: Execution, now: float, obstacles: Sequence[str] = ()
) -> Explanation:
    """`obstacles`: why nobody takes orders of it that are ready."""
    failed_at = await failed_step(store, row, execution.lifecycle.error)
    tokens, side_runs = await live_tokens(store, execution), await live_side_runs(store, execution, now)
    return Explanation(
        execution_id=row.execution_id,
        status=row.status,
        stuck=execution.is_open and (bool(obstacles) or execution.lifecycle.paused),
        sentences=[*sentences_of(execution, tokens, side_runs, failed_at=failed_at), *obstacles],
        tokens=tokens,
        side_runs=side_runs,
    )
