"""One iteration of a loop: its item, each try of its tasks with what it printed and how it failed, and its result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, LoopStarted
from noetl.events.projection.loop_cells import LoopCells
from noetl.events.projection.state_history import StateHistory
from noetl.events.tasks import TaskProcessed
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services
from noetl.store.contract import SingleRow

MOST_TRIES = 60  # listed; those of an iteration with more are in its events
_PAGE = 1_000
_TYPES = ("loop.iteration.*", TaskProcessed.event_type)


class IterationTry(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a task, as its report says."""

    seq: int
    task: str
    attempt: int
    status: str
    stdout: str | None
    error: dict[str, Any] | None


class IterationView(msgspec.Struct, kw_only=True):
    """`status`: open | running | done | failed. `has_item` is false where the items are stored apart from the log."""

    step: str
    step_run_id: str
    path: list[int]
    status: str = "open"
    started_at: str | None = None
    finished_at: str | None = None
    has_item: bool = False
    item: Any = None
    tries: list[IterationTry] = []
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


async def iteration_of(
    services: Services, execution_id: str, history: StateHistory, step_run_id: str, path: tuple[int, ...]
) -> IterationView:
    cells = history.loops.get((step_run_id, path[:-1]))
    span = cells.span(path[-1]) if cells is not None and path else None
    if cells is None or span is None:
        named = ".".join(map(str, path))
        raise ProblemDetails(404, f"execution {execution_id} has no iteration {named} in step run {step_run_id}")
    view = IterationView(step=cells.step, step_run_id=step_run_id, path=list(path))
    for started in await services.store.events(execution_id, after=cells.seq - 1, only=SingleRow(limit=1)):
        items = started.payload.items if isinstance(started.payload, LoopStarted) else None
        if items is not None and path[-1] < len(items):
            view.has_item, view.item = True, items[path[-1]]
    async for event in _own_events(services, execution_id, cells, span, path):
        _take(view, event)
    return view


async def _own_events(
    services: Services, execution_id: str, cells: LoopCells, span: tuple[int, int], path: tuple[int, ...]
) -> AsyncIterator[Event]:
    """From its first event to its last; one that has not begun has none."""
    begun, ended = span
    if not begun and not ended:
        return
    after, only = (begun or cells.seq) - 1, SingleRow(types=_TYPES, step=cells.step, limit=_PAGE)
    while page := await services.store.events(execution_id, after=after, only=only):
        for event in page:
            if event.step_run_id == cells.step_run_id and getattr(event.payload, "path", None) == path:
                yield event
            if ended and event.seq >= ended:
                return
        after = page[-1].seq


def _take(view: IterationView, event: Event) -> None:
    match event.payload:
        case IterationStarted():
            view.status, view.started_at = "running", view.started_at or rfc3339(event.ts)
        case IterationDone(result=result):
            view.status, view.finished_at = "done", rfc3339(event.ts)
            view.result = msgspec.to_builtins(result) or None
        case IterationFailed(error=error):
            view.status, view.finished_at, view.error = "failed", rfc3339(event.ts), error.readable()
        case TaskProcessed() as processed if len(view.tries) < MOST_TRIES:
            view.tries.append(_try(processed, event.seq))


def _try(processed: TaskProcessed, seq: int) -> IterationTry:
    outcome = processed.outcome
    return IterationTry(
        seq=seq,
        task=processed.task,
        attempt=processed.attempt,
        status=outcome.status.value,
        stdout=outcome.meta.stdout,
        error=outcome.error.readable() if outcome.error is not None else None,
    )
