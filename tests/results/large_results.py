"""Executions whose results are too large for an event."""

from __future__ import annotations

from typing import Any

from noetl.control.assembly import Assembly
from noetl.events.orders import Order, Report, Timed
from noetl.events.outcomes import TaskResult
from noetl.events.steps import StepDone
from tests.control.control_plane import CHAIN
from tests.engine_script import net_of

LARGE = "x" * 200_000


async def start(control: Assembly, execution_id: str, text: str = CHAIN, **payload: Any) -> None:
    await control.executions.start(net_of(text), execution_id=execution_id, trace_id="t", payload=payload)


def done(order: Order, result: Any = 1) -> Report:
    return Report(
        order_id=order.order_id,
        execution_id=order.execution_id,
        lease_epoch=order.lease_epoch,
        worker_id="w1",
        entries=(Timed(1.0, StepDone(result=TaskResult(result=result))),),
    )
