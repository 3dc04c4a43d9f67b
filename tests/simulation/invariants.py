"""Invariants after every step of a simulation (reliability.md §4.1), and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from noetl.control.executions import Executions
from noetl.engine.evolve import replay
from noetl.events.envelope import Event
from noetl.events.steps import ReportRefused
from noetl.events.tasks import TaskProcessed
from noetl.events.tokens import TokenClaimed
from noetl.store.memory import MemoryStore
from tests.cluster.checkers import (
    fenced_changes_nothing,
    items_count_once,
    lost_leases,
    no_gaps,
    nothing_after_cancel,
    one_end_each,
)


def log_is_sound(log: list[Event], *, ended: bool) -> None:
    """P3, P5, P7, P10, and that each refusal is recorded once."""
    no_gaps(log)
    one_end_each(log, ended=ended)
    fenced_changes_nothing(log)
    items_count_once(log, ended=ended)
    nothing_after_cancel(log)
    epochs_go_up(log)
    refusals_are_told_once(log)


def epochs_go_up(log: list[Event]) -> None:
    last: dict[str, int] = {}
    for event in log:
        if isinstance(event.payload, TokenClaimed) and (order_id := event.payload.order_id):
            assert event.payload.lease_epoch == last.get(order_id, 0) + 1, f"order {order_id}: an epoch was skipped"
            last[order_id] = event.payload.lease_epoch


def refusals_are_told_once(log: list[Event]) -> None:
    counts = Counter(
        (one.order_id, one.lease_epoch, one.worker_id)
        for event in log
        if isinstance(one := event.payload, ReportRefused)
    )
    assert set(counts.values()) <= {1}, f"a refused report was recorded {max(counts.values())} times"


def begins_for_the_first_time(log: list[Event], task_run_id: str, worker_id: str) -> None:
    """No task begins that is recorded as done."""
    done = any(isinstance(e.payload, TaskProcessed) and e.payload.task_run_id == task_run_id for e in log)
    assert not done, f"{worker_id} began a task that is recorded as done"


def stranger_is_refused(status: int, worker_id: str) -> None:
    """A worker id belongs to the token that it was given to. A server whose store is away says so."""
    assert status in (403, 503), f"a stranger spoke for {worker_id}"


def no_lease_was_lost(log: list[Event]) -> None:
    assert not lost_leases(log), "an order was claimed again though its worker was there all the time"


def replays_alike(log: list[Event], control_planes: Collection[Executions]) -> None:
    """P6: the memory of a server equals the fold of its log."""
    first = log[0]
    for executions in control_planes:
        if not executions.drives(first.execution_id):
            continue
        loaded = executions._loaded[first.execution_id].execution
        again = replay(first.execution_id, loaded.trace_id, log[: loaded.log.seq])
        assert again == loaded, f"{first.execution_id}: memory and log differ at event {loaded.log.seq}"


async def all_is_done(store: MemoryStore, accepted: Collection[str]) -> None:
    """P1, P2: no accepted execution is lost or stalls."""
    for execution_id in accepted:
        row = await store.execution(execution_id)
        assert row is not None, f"{execution_id} was accepted and is not there"
        assert row.status == "completed", f"{execution_id} is {row.status}"
