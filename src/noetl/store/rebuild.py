"""Rebuilding: the rows that lists and workers are served from, told anew from the log (EVT-01).

The log is the truth, so these rows may be lost. One thing is in no log: until when a lease holds. A rebuilt lease has
run out; whoever still holds it renews it, and its epoch fences everybody else as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine.evolve import replayed
from noetl.engine.execution import Execution
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, RequestEvaluated
from noetl.store.contract import DEFAULT_POOL, ExecutionRow, OrderRow, OrderState
from noetl.store.human_tasks import TaskRow
from noetl.store.waits import WaitRow, tasks_of, waits_of

_RUN_OUT = 0.0


class Derived(msgspec.Struct, frozen=True):
    """All rows that follow from one stream; orders in the order they were made."""

    execution: ExecutionRow
    orders: list[OrderRow]
    waits: list[WaitRow] = []
    tasks: list[TaskRow] = []


def derived_rows(events: Sequence[Event]) -> Derived:
    """The rows of one execution, from its whole stream. What is stored apart from the events is not needed."""
    first = events[0]
    requested = first.payload
    assert isinstance(requested, ExecutionRequested), "every stream begins with its request (SRV-01)"
    trace_id = requested.trace_id or first.trace_id
    execution = replayed(first.execution_id, trace_id, list(events))
    row = ExecutionRow(
        execution_id=first.execution_id,
        trace_id=trace_id,
        path=requested.path,
        name=evaluated_name(events) or requested.path,
        net_hash=requested.net_hash,
        status=execution.lifecycle.state,
        last_seq=execution.seq,
        created_at=first.ts,
        finished_at=execution.lifecycle.finished_at,
        parent_execution_id=requested.parent_execution_id,
        wake_at=execution.wake_at,
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
    return [_order(execution, *one) for one in made.items() if one[0] in execution.order_states.open]


def _order(execution: Execution, order_id: str, step_run_id: str) -> OrderRow:
    row = OrderRow(order_id=order_id, execution_id=execution.execution_id, step_run_id=step_run_id)
    run, lease = execution.run_of(order_id), execution.lease_of(order_id)
    assert run is not None, "an open order has its step run"
    assert lease is not None
    priority = execution.tokens[run.token_id].priority if run.side_run is None else 0
    row = msgspec.structs.replace(row, pool=run.lease.pool or DEFAULT_POOL, priority=priority)
    if lease.lease_epoch == 0:
        return row
    leased = {"lease_owner": lease.worker_id, "lease_epoch": lease.lease_epoch, "lease_until": _RUN_OUT}
    return msgspec.structs.replace(row, state=OrderState.LEASED, **leased)
