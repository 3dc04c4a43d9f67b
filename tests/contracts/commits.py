"""Commits, events and orders for tests of stores, each with all that a store must be given."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.payloads import EventSource
from noetl.events.tokens import TokenEnqueued
from noetl.store.contract import Commit, ExecutionRow, OrderRow, OrderState
from noetl.store.waits import MessageRow


def event(seq: int, *, execution_id: str = "x1", event_id: str | None = None, payload: Payload | None = None) -> Event:
    return Event(
        execution_id=execution_id,
        seq=seq,
        event_id=event_id or f"e{seq}",
        ts=1000.0 + seq,
        source=EventSource.SERVER,
        payload=payload or TokenEnqueued(token_id=f"t{seq}"),
        trace_id="t" + execution_id,
        parent_id="cause",
        step="a",
        step_run_id="r1",
    )


def commit(*events: Event, after: int = 0, orders: tuple[OrderRow, ...] = (), status: str = "running") -> Commit:
    execution_id = events[0].execution_id
    row = ExecutionRow(
        execution_id=execution_id,
        trace_id="t" + execution_id,
        path="p",
        name="n",
        net_hash="h",
        status=status,
        last_seq=after + len(events),
        created_at=1000.0,
    )
    return Commit(after=after, execution=row, events=events, orders=orders, net=b"{}" if after == 0 else None)


def order(state: OrderState = OrderState.READY, epoch: int = 0, *, until: float | None = None) -> OrderRow:
    return OrderRow(
        order_id="o1",
        execution_id="x1",
        step_run_id="r1",
        state=state,
        lease_owner="w" if state is OrderState.LEASED else None,
        lease_epoch=epoch,
        lease_until=until,
    )


def message(message_id: str, *, name: str = "paid", at: float = 1.0, until: float = 100.0, **data: Any) -> MessageRow:
    return MessageRow(message_id=message_id, name=name, sent_at=at, expires_at=until, **data)


def step(seq: int, *, execution_id: str = "x1", **changes: Any) -> Commit:
    one = commit(event(seq, execution_id=execution_id), after=seq - 1)
    return msgspec.structs.replace(one, **changes)
