"""Inspection: whether a store holds what it should. Streams have no gaps, every open row has an owner, and
the rows beside the log match the log (EVT-01, EVT-02). Also rebuilding those rows from the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.base.errors import NoetlError
from noetl.engine.evolve import replay
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, RequestEvaluated
from noetl.store.contract import DEFAULT_POOL, ExecutionRow, OrderRow, OrderState, Store
from noetl.store.human_tasks import TaskRow
from noetl.store.row_summary import summary_of
from noetl.store.sql_files import named_queries
from noetl.store.waits import WaitRow, tasks_of, waits_of

# Rebuilding: the rows for lists and workers are made again from the log (EVT-01).
#
# These rows may be lost, since the log has all that is in them, except the end of a lease. A rebuilt lease has run out.
# A worker that still holds it renews it, and reports under an older epoch are refused as before.

_RUN_OUT = 0.0


class Derived(msgspec.Struct, frozen=True):
    """All rows that follow from one stream; orders in the order they were made."""

    execution: ExecutionRow
    orders: list[OrderRow]
    waits: list[WaitRow] = []
    tasks: list[TaskRow] = []


def derived_rows(events: Sequence[Event]) -> Derived:
    """The rows of one execution, from its whole stream. Separately stored values are not needed."""
    first = events[0]
    requested = first.payload
    assert isinstance(requested, ExecutionRequested), "every stream begins with its request (SRV-01)"
    trace_id = requested.trace_id or first.trace_id
    execution = replay(first.execution_id, trace_id, list(events))
    row = ExecutionRow(
        execution_id=first.execution_id,
        trace_id=trace_id,
        path=requested.path,
        name=evaluated_name(events) or requested.path,
        net_hash=requested.net_hash,
        status=execution.lifecycle.state,
        last_seq=execution.log.seq,
        created_at=first.ts,
        finished_at=execution.lifecycle.finished_at,
        parent_execution_id=requested.parent_execution_id,
        wake_at=execution.wake_at,
        failed_iterations=execution.counts.failed_iterations.failed,
        iterations=execution.counts.failed_iterations.total,
        summary=summary_of(execution),
    )
    return Derived(row, _orders(execution, events), waits_of(execution), tasks_of(execution))


def evaluated_name(events: Sequence[Event]) -> str | None:
    """The playbook's name; None for a request that was refused before it was evaluated."""
    return next((event.payload.name for event in events[:2] if isinstance(event.payload, RequestEvaluated)), None)


def _orders(execution: Execution, events: Sequence[Event]) -> list[OrderRow]:
    made: dict[str, str] = {}
    for event in events:
        order_id = getattr(event.payload, "order_id", None)
        if order_id is not None and event.step_run_id is not None:
            # The first event that names an order is the one that made it, so this is the order in which they were made.
            made.setdefault(order_id, event.step_run_id)
    return [_order_row(execution, *one) for one in made.items() if one[0] in execution.order_states.open]


def _order_row(execution: Execution, order_id: str, step_run_id: str) -> OrderRow:
    row = OrderRow(order_id=order_id, execution_id=execution.execution_id, step_run_id=step_run_id)
    run, lease = execution.run_of(order_id), execution.lease_of(order_id)
    assert run is not None, "an open order has its step run"
    assert lease is not None
    priority = execution.tokens[run.token.token_id].priority if run.side_run is None else 0
    row = msgspec.structs.replace(row, pool=run.lease.pool or DEFAULT_POOL, priority=priority)
    if lease.lease_epoch == 0:
        return row
    leased = {"lease_owner": lease.worker_id, "lease_epoch": lease.lease_epoch, "lease_until": _RUN_OUT}
    return msgspec.structs.replace(row, state=OrderState.LEASED, **leased)


_STATEMENTS = named_queries(Path(__file__).with_name("inspection.sql"))
_PAGE = 200
_TRIES = 3  # a running execution that has moved meanwhile is compared again


class StoreFault(msgspec.Struct, frozen=True):
    execution_id: str
    what: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """`compared` executions were rebuilt from their logs; the other checks covered all of them. `hazards` are
    settings under which a commit may be lost."""

    compared: int
    flaws: list[StoreFault]
    hazards: list[str]


class SqlStore(Store, Protocol):
    """A store that answers in SQL."""

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement that only reads."""

    async def hazards(self) -> list[str]:
        """The settings that make its commits less durable than they should be."""


async def inspected(store: SqlStore, *, sample: int) -> Inspection:
    """Look at everything, and compare the rows of the `sample` newest executions with their logs."""
    flaws = [StoreFault(*row) for statement in _STATEMENTS.values() for row in await store.ask(statement)]
    compared = 0
    async for row in _newest(store, sample):
        compared += 1
        flaws += [StoreFault(row.execution_id, what) for what in await _differences(store, row.execution_id)]
    return Inspection(compared=compared, flaws=flaws, hazards=await store.hazards())


async def _newest(store: Store, sample: int) -> AsyncIterator[ExecutionRow]:
    beyond: str | None = None
    while sample > 0:
        page = await store.executions(limit=min(sample, _PAGE), beyond=beyond)
        if not page:
            return
        for row in page:
            yield row
        sample, beyond = sample - len(page), page[-1].execution_id


class _Rows(msgspec.Struct, frozen=True):
    """The rows of one execution, as far as they follow from its log. The end of a lease is in no log; the pool of an
    order and the name of a refused request come from the net; older programs did not count iterations."""

    execution: ExecutionRow | None
    orders: list[tuple[Any, ...]]
    waits: list[WaitRow]
    tasks: list[TaskRow]


async def _differences(store: Store, execution_id: str) -> list[str]:
    for _ in range(_TRIES):
        stored = await _stored_rows(store, execution_id)
        try:
            events = await store.events(execution_id)
            derived = _derived_rows(derived_rows(events), _unverifiable_fields(stored, events)) if events else None
        except (NoetlError, AssertionError) as problem:
            return [f"its log cannot be read: {problem}"]
        # An execution that runs may commit between the two reads. Then its rows and its log are of different times, and
        # a difference is no damage.
        if derived is None or (await store.positions([execution_id])).get(execution_id) == len(events):
            break
    if derived is None:
        return ["it has no events"]
    names = [name for name in _Rows.__struct_fields__ if getattr(stored, name) != getattr(derived, name)]
    return [f"its {name} in the store and as its log tells them differ" for name in names]


async def _stored_rows(store: Store, execution_id: str) -> _Rows:
    tasks = await store.tasks.list(execution_id=execution_id, limit=1_000_000)
    return _Rows(
        await store.execution(execution_id),
        sorted(map(_order, await store.orders(execution_id))),
        sorted(await store.waits.of(execution_id), key=lambda wait: wait.wait_id),
        sorted(tasks, key=lambda task: task.task_id),
    )


def _unverifiable_fields(stored: _Rows, events: Sequence[Event]) -> dict[str, Any]:
    """Fields of the stored row that need not match the log: the name where the log has none, and what the writer of
    the row, an earlier version, did not count."""
    if stored.execution is None:
        return {}
    found: dict[str, Any] = {"name": stored.execution.name} if evaluated_name(events) is None else {}
    if stored.execution.failed_iterations is None:
        found |= {"failed_iterations": None, "iterations": stored.execution.iterations}
    if stored.execution.summary is None:
        found["summary"] = None
    return found


def _derived_rows(derived: Derived, unknown: dict[str, Any]) -> _Rows:
    return _Rows(
        msgspec.structs.replace(derived.execution, **unknown),
        sorted(map(_order, derived.orders)),
        sorted(derived.waits, key=lambda wait: wait.wait_id),
        sorted(derived.tasks, key=lambda task: task.task_id),
    )


def _order(order: OrderRow) -> tuple[Any, ...]:
    return order.order_id, order.step_run_id, order.state.value, order.lease_owner or "", order.lease_epoch
