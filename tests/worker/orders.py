"""An order as a worker is given it, for tests that care for little of it."""

from __future__ import annotations

from typing import Any

from noetl.events.orders import Order
from noetl.events.position import Position


def an_order(task: str, **other: Any) -> Order:
    """One that stands at `task` of the step `start`; `other` are fields that matter to the test."""
    usual: dict[str, Any] = {
        "order_id": "o",
        "execution_id": "x1",
        "step_run_id": "r",
        "step": "start",
        "net_hash": "h",
        "lease_epoch": 1,
        "trace_id": "t",
        "position": Position(task=task),
        "args": {},
        "workload": {},
        "ctx": {},
        "token": {},
        "results": {},
    }
    return Order(**{**usual, **other})
