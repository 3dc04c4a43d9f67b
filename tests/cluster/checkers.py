"""The promises, each as a function over the store and the ledgers; `check` has them all (reliability.md §4.1).

P1 accepted is durable, P2 nothing stalls in silence, P3 one end of everything, P4 effects once or once more for each
lost lease, P5 a fenced worker changes nothing, P7 every item counts once, P10 nothing begins after a cancellation.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from noetl.events.control import PlaybookCancelled
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed, WorkflowFinished
from noetl.events.loops import IterationDone, IterationFailed, LoopDone, LoopStarted
from noetl.events.side_runs import OrderClaimed
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.tokens import TokenClaimed
from noetl.store.contract import Store
from noetl.store.open_store import open_store

Log = Sequence[Event]
_CLAIMS = (TokenClaimed, OrderClaimed)
_ITERATION_ENDS = (IterationDone, IterationFailed)
_STEP_ENDS = (StepDone, StepFailed, LoopDone)


def check(
    db: str, accepted: Iterable[str], effects: Mapping[str, int] | None = None, *, ended: bool = True
) -> dict[str, Log]:
    """Every promise that a log can show, for all of `accepted`; gives the logs. `ended`: all of them must be over."""
    return asyncio.run(_checked(db, list(accepted), effects, ended))


async def _checked(db: str, accepted: list[str], effects: Mapping[str, int] | None, ended: bool) -> dict[str, Log]:
    store, _ = await open_store(db)
    try:
        await accepted_is_stored(store, accepted)
        await nothing_stalls(store)
        logs: dict[str, Log] = {one: await store.events(one) for one in accepted}
    finally:
        await store.close()
    for log in logs.values():
        no_gaps(log)
        one_end_each(log, ended=ended)
        fenced_changes_nothing(log)
        items_count_once(log, ended=ended)
        nothing_after_cancel(log)
        if effects is not None:
            effects_are_bounded(log, effects)
    return logs


async def accepted_is_stored(store: Store, accepted: Iterable[str]) -> None:
    """P1"""
    for execution_id in accepted:
        assert await store.execution(execution_id) is not None, f"{execution_id} was accepted and is not there"


async def nothing_stalls(store: Store) -> None:
    """P2: every open execution waits for something that will arrive."""
    beyond = None
    while rows := await store.executions(limit=500, beyond=beyond):
        beyond = rows[-1].execution_id
        for row in rows:
            if row.finished_at is not None or row.status == "paused" or row.wake_at is not None:
                continue
            has_work = await store.orders(row.execution_id) or await store.waits.of(row.execution_id)
            open_children = [one for one in await store.children(row.execution_id) if one.finished_at is None]
            assert has_work or open_children, f"{row.execution_id} is open, and nothing will ever move it"


def no_gaps(log: Log) -> None:
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert len({event.event_id for event in log}) == len(log)


def one_end_each(log: Log, *, ended: bool = True) -> None:
    """P3"""
    ends = Counter(
        type(event.payload) for event in log if isinstance(event.payload, WorkflowFinished | PlaybookProcessed)
    )
    assert set(ends.values()) <= {1}, f"{log[0].execution_id} ends more than once"
    if ended:
        assert ends[PlaybookProcessed] == 1, f"{log[0].execution_id} did not end"
    steps = Counter(event.step_run_id for event in log if isinstance(event.payload, _STEP_ENDS))
    assert set(steps.values()) <= {1}, "a step run ends once"
    iterations = Counter((e.step_run_id, e.payload.path) for e in log if isinstance(e.payload, _ITERATION_ENDS))
    assert set(iterations.values()) <= {1}, "an iteration ends once"
    tasks = Counter(e.payload.task_run_id for e in log if isinstance(e.payload, TaskProcessed))
    assert set(tasks.values()) <= {1}, "a task run is recorded once"


def lost_leases(log: Log) -> Counter[str | None]:
    """How many were lost, by step run."""
    lost: Counter[str | None] = Counter()
    for event in log:
        if isinstance(event.payload, _CLAIMS) and event.payload.lease_epoch > 1:
            lost[event.step_run_id] += 1
    return lost


def effects_are_bounded(log: Log, effects: Mapping[str, int]) -> None:
    """P4: every recorded effect happened, and at most once for each lease."""
    lost, execution_id = lost_leases(log), log[0].execution_id
    done: dict[str, str | None] = {}
    for event in log:
        payload = event.payload
        if isinstance(payload, TaskProcessed) and payload.outcome.ok and payload.task.startswith("effect"):
            where = [execution_id, str(event.step_run_id), *map(str, payload.path), payload.task, str(payload.visit)]
            done["/".join(where)] = event.step_run_id
    for key, step_run_id in done.items():
        assert effects.get(key, 0) >= 1, f"{key} is recorded and never happened"
        most = 1 + lost[step_run_id]
        assert effects[key] <= most, f"{key} happened {effects[key]} times, with {lost[step_run_id]} leases lost"


def fenced_changes_nothing(log: Log) -> None:
    """P5: a report is accepted only from the worker that holds an order of the step run at that time."""
    holders: defaultdict[str | None, dict[str, str]] = defaultdict(dict)
    for event in log:
        payload = event.payload
        if isinstance(payload, _CLAIMS):
            holders[event.step_run_id][payload.order_id or ""] = payload.worker_id
        elif isinstance(payload, TaskStarted | TaskProcessed) and payload.worker_id and not event.on_behalf:
            held = holders[event.step_run_id].values()
            assert payload.worker_id in held, f"{payload.worker_id} reported what is held by {list(held)}"


def items_count_once(log: Log, *, ended: bool = True) -> None:
    """P7: N items, N ends, one `loop.done`."""
    for event in log:
        if not isinstance(event.payload, LoopStarted):
            continue
        level = event.payload.path
        own = [e for e in log if e.step_run_id == event.step_run_id]
        terminal = [e.payload.path for e in own if isinstance(e.payload, _ITERATION_ENDS)]
        terminal = [path for path in terminal if path[:-1] == level]
        done = [e.payload for e in own if isinstance(e.payload, LoopDone)]
        assert len(terminal) == len(set(terminal)), "an item counts once"
        if done and not level:
            assert len(terminal) == event.payload.total
            assert [one.done + one.failed for one in done] == [event.payload.total]
        elif ended and not done:
            assert any(isinstance(e.payload, StepFailed | PlaybookCancelled) for e in log), "a loop never ended"


def nothing_after_cancel(log: Log) -> None:
    """P10: no order is handed out once a cancellation is stored."""
    cancelled = next((e.seq for e in log if isinstance(e.payload, PlaybookCancelled)), None)
    if cancelled is not None:
        after = [e for e in log if e.seq > cancelled and isinstance(e.payload, TokenClaimed)]
        assert not after, "an order was handed out after the cancellation"


def retaken_leases(log: Log) -> int:
    """P9: how many leases were taken after another was lost. `make bench` measures how long that takes."""
    return sum(isinstance(event.payload, _CLAIMS) and event.payload.lease_epoch > 1 for event in log)
