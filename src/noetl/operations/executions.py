"""Executions: pausing, resuming and cancelling them (SRV-07, SRV-11), explaining them, reading and following their
logs.

An explanation says what an execution waits for and why: its live tokens, its side runs, and what would move it. It is
made from the state of the execution and the wait rows of the store, for a server and a local store alike. Only a server
knows which workers could take its orders; it passes reasons why none does as `obstacles`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import SettledError
from noetl.control.views import token_views
from noetl.control.views.token_views import SideRunView, TokenView, sentences_of
from noetl.engine.execution import Execution
from noetl.events.control import PlaybookCancelled, PlaybookPaused, PlaybookResumed
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed, RerunState, Starter
from noetl.events.loops import LoopStarted
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Error
from noetl.events.steps import StepFailed
from noetl.operations.administration_shapes import StarterView
from noetl.operations.api_shapes import ExecutionView, Lateness, PauseView, RerunItems, Steered
from noetl.operations.results import newest_event
from noetl.store.contract import EventFilter, ExecutionRow, Records, Store
from noetl.store.human_tasks import TaskState

# Events read at a time, so that a long log is never in memory as a whole and its first events appear at once.
_PAGE = 2_000
# How many failed steps are searched. Arcs may have handled thousands of failures; the fatal one is among the newest.
_FAILURES = 100
# A local store sends no notification of new events, so the log is polled.
_POLL_S = 0.2


def execution_view(row: ExecutionRow) -> ExecutionView:
    return ExecutionView(**row.readable())


async def end_error(records: Records, row: ExecutionRow) -> Error | None:
    """The error that an execution ended with; none while it runs, or when it completed."""
    if row.finished_at is None:
        # Do not search: finding that there is no such event reads the whole log, and running executions are viewed
        # most.
        return None
    end = await newest_event(records, row.execution_id, PlaybookProcessed.event_type)
    return end.payload.error if end is not None and isinstance(end.payload, PlaybookProcessed) else None


async def failed_step(records: Records, row: ExecutionRow, error: Error | None) -> str | None:
    """The step whose error ended the execution, so that all views name the step that belongs to the error they show.

    Several steps may have failed, and arcs may have handled some failures. Without a match it is the step that failed
    last. No step ended a cancelled execution, even after earlier failures."""
    if error is None or row.status != "failed":
        return None
    selection = EventFilter(types=(StepFailed.event_type,), limit=_FAILURES, newest=True)
    failures = await records.events(row.execution_id, only=selection)
    matching = (
        event for event in failures if isinstance(event.payload, StepFailed) and _ends_with(error, event.payload.error)
    )
    failure = next(matching, failures[-1] if failures else None)
    return failure.step if failure is not None else None


def _ends_with(end: Error, failure: Error) -> bool:
    """Whether the error of an execution is this one of a step: itself, as the cause of another, or with a message that
    goes on to say which arc could not be decided because of it."""
    if failure in (end, end.cause):
        return True
    is_longer = end.message.startswith(f"{failure.message}; ")
    return is_longer and msgspec.structs.replace(failure, message=end.message) == end


def starter_view(starter: Starter | None, created_at: float) -> StarterView | None:
    if starter is None:
        return None
    planned_at = starter.planned_at
    is_scheduled = starter.kind == "schedule" and planned_at is not None
    return StarterView(
        kind=starter.kind,
        name=starter.name,
        planned_at=rfc3339(planned_at) if planned_at is not None else None,
        # The times of a backfill are past: that it begins later says nothing.
        late_s=max(0.0, created_at - planned_at) if is_scheduled and planned_at is not None else None,
    )


async def canceller(records: Records, row: ExecutionRow) -> str | None:
    """The user who cancelled the execution."""
    if row.status != "cancelled":
        return None
    event = await newest_event(records, row.execution_id, PlaybookCancelled.event_type)
    return event.payload.actor if event is not None and isinstance(event.payload, PlaybookCancelled) else None


async def lasting_pause(records: Records, row: ExecutionRow) -> PauseView | None:
    """The pause of an execution that is paused."""
    if row.status != "paused":
        return None
    event = await newest_event(records, row.execution_id, PlaybookPaused.event_type)
    if event is None or not isinstance(event.payload, PlaybookPaused):
        return None
    return PauseView(since=rfc3339(event.ts), by=event.payload.actor, reason=event.payload.reason)


def lateness(row: ExecutionRow, late_after_s: Sequence[float], now: float) -> Lateness | None:
    """Whether an open execution is late, by the shortest duration that was expected of it; a paused one is not."""
    # Not from the log: running executions are viewed most, and the search for an event reads it.
    passed = [after_s for after_s in late_after_s if row.created_at + after_s <= now]
    if not passed or row.finished_at is not None or row.status == "paused":
        return None
    return Lateness(since=rfc3339(row.created_at + min(passed)), expected_s=min(passed))


async def pauses_of(records: Records, execution_id: str) -> list[PauseView]:
    """All pauses of an execution, the oldest first. The end of an execution ends its pause."""
    types = (PlaybookPaused.event_type, PlaybookResumed.event_type, PlaybookProcessed.event_type)
    pauses: list[PauseView] = []
    async for events in event_pages(records, execution_id, only=EventFilter(types=types)):
        for event in events:
            match event.payload:
                case PlaybookPaused(actor=actor, reason=reason):
                    pauses.append(PauseView(since=rfc3339(event.ts), by=actor, reason=reason))
                case PlaybookResumed() | PlaybookProcessed() if pauses and pauses[-1].until is None:
                    actor = event.payload.actor if isinstance(event.payload, PlaybookResumed) else None
                    pauses[-1] = msgspec.structs.replace(pauses[-1], until=rfc3339(event.ts), resumed_by=actor)
    return pauses


_ITEMS_NAMED = 20


async def rerun_items(records: Records, row: ExecutionRow, carried: RerunState | None) -> RerunItems | None:
    """The items that a rerun ran of the loop it began at, where it kept the results of others."""
    if carried is None or carried.kept is None:
        return None
    kept = carried.kept
    total = len(kept.items) if kept.items is not None else None
    if total is None:  # the items are stored apart; the loop says how many they are
        selection = EventFilter(types=(LoopStarted.event_type,), limit=1)
        for event in await records.events(row.execution_id, only=selection):
            total = event.payload.total if isinstance(event.payload, LoopStarted) else None
    known = {*kept.indices}
    indices = islice((index for index in range(total or 0) if index not in known), _ITEMS_NAMED)
    return RerunItems(kept=len(kept.indices), total=total, indices=list(indices))


# Reruns of an execution, in rows of their own: a full rerun is in no log, and the log of the first one is closed.
_RERUN, _RERUN_OF = "rerun", "rerun_of"
_RERUNS_KEPT_S = 90 * 86_400.0  # as long as servers keep executions by default
_DEEPEST = 5  # reruns of reruns that are followed


async def note_rerun(store: Store, first: str, again: str, *, is_complete: bool, now: float) -> None:
    """Remember that execution `again` repeats `first`. `is_complete`: it does all that failed there."""
    for kind in (_RERUN, _RERUN_OF):
        await store.key_values.sweep(kind, before=now - _RERUNS_KEPT_S)
    # Each rerun has its own name, so that two reruns at the same moment do not overwrite each other.
    await store.key_values.put(_RERUN, f"{first}/{again}", b"complete" if is_complete else b"", over=0, at=now)
    await store.key_values.put(_RERUN_OF, again, first.encode(), over=0, at=now)


async def rerun_source(store: Store, execution_id: str) -> str | None:
    """The execution that it repeats."""
    row = await store.key_values.get(_RERUN_OF, execution_id)
    return row.body.decode() if row is not None else None


async def reruns_of(store: Store, execution_id: str, *, only_complete: bool = False) -> list[ExecutionRow]:
    """The executions that repeat it, the oldest first."""
    noted = await store.key_values.list(_RERUN, prefix=f"{execution_id}/")
    ids = [row.name.rpartition("/")[2] for row in noted if row.body or not only_complete]
    return [row for again in ids if (row := await store.execution(again)) is not None]


class RerunLinks(msgspec.Struct, frozen=True):
    """The reruns among executions in a list: which execution each one repeats, and the newest that repeats it."""

    sources: dict[str, str]
    newest: dict[str, str]


async def rerun_links(store: Store, execution_ids: Sequence[str]) -> RerunLinks:
    """The reruns among these executions. It takes two queries, however many executions there are."""
    wanted = set(execution_ids)
    sources = await store.key_values.beginning(_RERUN_OF, execution_ids)
    noted = await store.key_values.beginning(_RERUN, [f"{one}/" for one in execution_ids])
    return RerunLinks(
        {row.name: row.body.decode() for row in sources if row.name in wanted},
        # By name: ids begin with the time, so the last one is the newest.
        {row.name.partition("/")[0]: row.name.rpartition("/")[2] for row in noted},
    )


async def is_done_again(store: Store, execution_id: str, depth: int = 0) -> bool:
    """Whether all that failed in it was done by a rerun, or by a rerun of that one."""
    if depth == _DEEPEST:
        return False
    for row in await reruns_of(store, execution_id, only_complete=True):
        if row.status == "completed" and not row.failed_iterations:
            return True
        if await is_done_again(store, row.execution_id, depth + 1):
            return True
    return False


async def control_result(store: Store, row: ExecutionRow, action: str, verdict: ReportResult) -> Steered:
    """The answer to a pause, resume or cancel request. SettledError for an execution that is over."""
    if verdict not in (ReportResult.ACCEPTED, ReportResult.DUPLICATE):
        raise SettledError(f"execution {row.execution_id} has ended and cannot be changed")
    now = await store.execution(row.execution_id)
    assert now is not None, "an execution is not deleted while a request changes it"
    changed = verdict is ReportResult.ACCEPTED
    return Steered(execution_id=row.execution_id, action=action, changed=changed, execution=execution_view(now))


async def event_pages(
    records: Records, execution_id: str, *, after: int = 0, only: EventFilter | None = None
) -> AsyncIterator[list[Event]]:
    """The log of an execution, page by page."""
    selection = msgspec.structs.replace(only or EventFilter(), limit=_PAGE)
    while True:
        events = await records.events(execution_id, after=after, only=selection)
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
    only: EventFilter | None = None,
    before_look: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[list[Event]]:
    """The log as it grows, until the execution is over and all of it has been read. `before_look` is called before
    each poll."""
    while True:
        # Read the row before the events: if it says that the execution is over, the last event is already stored.
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
    """`sentences` say what the execution waits for; `stuck` is true when it needs somebody to act. `obstacles` say why
    no worker takes its queued steps; they are among the sentences too. `pause` is the one that lasts."""

    execution_id: str
    status: str
    stuck: bool
    sentences: list[str]
    tokens: list[TokenView]
    side_runs: list[SideRunView] = []
    obstacles: list[str] = []
    pause: PauseView | None = None


def pause_sentence(pause: PauseView) -> str:
    by = f" by {pause.by}" if pause.by else ""
    reason = f" ({pause.reason})" if pause.reason else ""
    return f"it was paused at {pause.since[:19]}Z{by}{reason}: nothing new starts before a resume"


async def live_tokens(store: Store, execution: Execution, now: float) -> list[TokenView]:
    """The live tokens of an execution, the oldest first."""
    execution_id, states = execution.execution_id, (TaskState.OPEN, TaskState.CLAIMED)
    return token_views.tokens_of(
        execution,
        await store.orders(execution_id),
        await store.waits.of(execution_id),
        await store.tasks.list(states=states, execution_id=execution_id),
        now,
    )


async def live_side_runs(store: Store, execution: Execution, now: float) -> list[SideRunView]:
    """The side runs of an execution, the oldest first, then the compensations that are still to come."""
    # Most executions have none; this saves them the query for orders.
    if not execution.side_work.step_runs and execution.side_work.saga is None:
        return []
    return token_views.side_runs_of(execution, await store.orders(execution.execution_id), now)


async def explanation_of(
    store: Store, row: ExecutionRow, execution: Execution, now: float, obstacles: Sequence[str] = ()
) -> Explanation:
    """The explanation of an execution. `obstacles` are reasons why no worker takes its ready orders."""
    failed_at = await failed_step(store, row, execution.lifecycle.error)
    tokens, side_runs = await live_tokens(store, execution, now), await live_side_runs(store, execution, now)
    pause = await lasting_pause(store, row)
    paused = [pause_sentence(pause)] if pause is not None else []
    return Explanation(
        execution_id=row.execution_id,
        status=row.status,
        # A paused execution counts as stuck: only a person resumes it.
        stuck=execution.is_open and (bool(obstacles) or execution.lifecycle.paused),
        sentences=[*paused, *sentences_of(execution, tokens, side_runs, failed_at=failed_at), *obstacles],
        tokens=tokens,
        side_runs=side_runs,
        obstacles=list(obstacles),
        pause=pause,
    )
