"""An order as a worker is given it, and where it runs it, for tests that care for little of both."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.base.clock import Clock
from noetl.base.redaction import Mask
from noetl.events.orders import Order, Position
from noetl.net.net import Net
from noetl.tools.registry import Registry
from noetl.worker.control_plane import ControlPlane
from noetl.worker.order_context import Collections, OrderContext, WorkerServices
from noetl.worker.reports import ReportQueue
from noetl.worker.slots import WorkerHandle


def an_order(task: str, **other: Any) -> Order:
    """An order at `task` of the step `start`; `other` are fields that matter to the test."""
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


def order_context(order: Order, net: Net, control_plane: ControlPlane, tools: Registry, clock: Clock) -> OrderContext:
    """Where a worker runs it, with a queue of its own and without slots to lend."""
    services = WorkerServices(
        control_plane=control_plane,
        reports=ReportQueue(control_plane, WorkerHandle("w", lambda _: None)),
        collections=Collections(control_plane.load),
        tools=tools,
        clock=clock,
        sleep=asyncio.sleep,
        worker_id="w",
    )
    return OrderContext(order, net, services, Mask())
