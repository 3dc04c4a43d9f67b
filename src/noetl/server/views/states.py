"""States of executions, replayed from their logs, now or after any event (EVT-07).

`StateHistories` keeps the folds of executions that people view, so that a request reads only new events, and none for
an earlier moment. Their total size is bounded: the least recently viewed one is dropped first. A fold that alone is too
large is made for its answer and not kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.errors import BackendError, ToolError
from noetl.control.views.token_views import loop_of
from noetl.engine.evolve import replay
from noetl.engine.execution import Execution, StepRun
from noetl.events.envelope import Event, with_stored_values
from noetl.events.large_values import Load
from noetl.server.computations import computed
from noetl.server.problem_details import ProblemDetails
from noetl.store.contract import EventFilter, ExecutionRow

if TYPE_CHECKING:
    from noetl.server.services import Services  # which holds the histories
from collections import OrderedDict

from noetl.events.projection.state_history import StateHistory
from noetl.store.contract import History


class StateView(msgspec.Struct, frozen=True, kw_only=True):
    """The state after event `at`. `marking` has the tokens of each step; `results` are those of finished steps."""

    execution_id: str
    at: int
    status: str
    marking: dict[str, int]
    tokens: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    ctx: dict[str, Any]
    workload: dict[str, Any]
    results: dict[str, Any]
    error: dict[str, Any] | None


async def state_of(services: Services, row: ExecutionRow, at: int | None = None) -> Execution:
    """The execution after event `at`, None for now. Read only: it may be the object that the server drives."""
    if at is None and (live := await _live(services, row)) is not None:
        return live
    if at is not None and not 0 < at <= row.last_seq:
        raise ProblemDetails(422, f"at: there are events 1 to {row.last_seq}, not {at}")
    events = await services.store.events(row.execution_id, only=EventFilter(limit=at) if at is not None else None)
    events_with_values = await whole_events(services, row, events)
    # In a thread: replaying a long log takes seconds, and would block all other requests.
    return await computed(replay, row.execution_id, row.trace_id, events_with_values)


async def whole_events(services: Services, row: ExecutionRow, events: list[Event]) -> list[Event]:
    """The events with their separately stored values."""

    def complete_events(load: Load) -> list[Event]:
        return [with_stored_values(event, load) for event in events]

    try:
        if services.results.is_outside:
            # Values in a bucket are fetched by the event loop, which a thread cannot do.
            return await services.control.executions.values.read(complete_events)
        return await asyncio.to_thread(complete_events, services.results.load)
    except ToolError as problem:
        raise BackendError(f"execution {row.execution_id} cannot be read: {problem.message}") from problem


async def _live(services: Services, row: ExecutionRow) -> Execution | None:
    """The execution in memory, if this server drives it and no other server has changed it since."""
    if not services.control.executions.drives(row.execution_id):
        return None
    # Only a state whose events are all stored: people must not see events that a failed commit would undo.
    loaded = await services.control.executions.execution(row.execution_id)
    return loaded.execution if loaded.committed == row.last_seq == loaded.execution.log.seq else None


def status_of(execution: Execution) -> str:
    if execution.lifecycle.status is not None:
        return execution.lifecycle.status.value
    return "paused" if execution.lifecycle.paused else "running"


def state_view(execution: Execution) -> StateView:
    marking: dict[str, int] = {}
    for token in execution.tokens.values():
        marking[token.step] = marking.get(token.step, 0) + 1
    return StateView(
        execution_id=execution.execution_id,
        at=execution.log.seq,
        status=status_of(execution),
        marking=marking,
        tokens=[
            {"token_id": item.token_id, "step": item.step, "args": item.args, "held": item.held}
            for item in execution.tokens.values()
        ],
        runs=[_run(item) for item in execution.runs.values()],
        ctx=execution.variables.ctx,
        workload=execution.origin.workload,
        # Without `of_loop`: only templates need it, and a reader would take it for a part of the result.
        results={
            name: msgspec.to_builtins(msgspec.structs.replace(result, of_loop=False))
            for name, result in execution.outputs.results.items()
        },
        error=execution.lifecycle.error.readable() if execution.lifecycle.error is not None else None,
    )


def _run(run: StepRun) -> dict[str, Any]:
    position = run.progress.position
    return {
        "step_run_id": run.step_run_id,
        "token_id": run.token.token_id,
        "step": run.step,
        "args": run.token.args,
        "order_id": run.lease.order_id,
        "worker_id": run.lease.worker_id,
        "lease_epoch": run.lease.lease_epoch,
        "task": position.task,
        "visit": position.visit,
        "attempt": position.attempt,
        "iter": position.iter,
        "loop": loop_of(run),
    }


MOST_BYTES = 64_000_000  # about 20 executions of 100,000 events
_PAGE = 1_000  # events that are folded between two looks at other requests


class _CachedHistory(msgspec.Struct):
    history: StateHistory = msgspec.field(default_factory=StateHistory)
    # held while its log is read: two readers at once would take the same events twice
    reading: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    # as it was after the last reading; `_forget` adds up these instead of measuring all histories
    size_bytes: int = 0


class StateHistories:
    """Histories in memory, least recently viewed first."""

    def __init__(self, store: History, most_bytes: int = MOST_BYTES) -> None:
        self._store, self._most_bytes = store, most_bytes
        self._kept: OrderedDict[str, _CachedHistory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def of(self, row: ExecutionRow) -> StateHistory:
        """The fold of an execution with all events that are stored. Two concurrent callers read its log once."""
        cached = self._kept.setdefault(row.execution_id, _CachedHistory())
        self._kept.move_to_end(row.execution_id)
        async with cached.reading:
            # Only new events are read: a page that watches an execution asks again with each event.
            if cached.history.seq < row.last_seq:
                try:
                    await self._read(row.execution_id, cached.history)
                except Exception:
                    self._kept.pop(row.execution_id, None)  # half of a page may have been taken
                    raise
                cached.size_bytes = cached.history.size_bytes
                self._forget()
        return cached.history

    async def _read(self, execution_id: str, history: StateHistory) -> None:
        only = EventFilter(limit=_PAGE)
        # Page by page, each read with an await: folding a long log at once would hold up every other request.
        while page := await self._store.events(execution_id, after=history.seq, only=only):
            history.take_all(page)
            if len(page) < _PAGE:
                return

    def _forget(self) -> None:
        total = sum(cached.size_bytes for cached in self._kept.values())
        while total > self._most_bytes and self._kept:
            total -= self._kept.popitem(last=False)[1].size_bytes
