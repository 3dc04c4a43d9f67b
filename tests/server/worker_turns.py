"""Turns that a worker takes with the server over HTTP, one request at a time."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec

from noetl.events.orders import Order, Report, Timed, Turn, TurnAnswer
from noetl.events.outcomes import Meta, Outcome, Status, TaskResult
from noetl.events.steps import StepDone
from noetl.events.tasks import Decided, TaskProcessed, TaskStarted
from tests.server.talking import Talk, WorkerClient

WORK = """
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1"}]
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop}
"""
READING = """
keychain: [{name: api, kind: env, var: ORDERS_API_KEY}]
workflow:
  - step: start
    tool: [{name: work, kind: python, args: {key: "{{ keychain.api }}"}, code: "result = 1"}]
"""


async def turn(worker: WorkerClient, *reports: Report, capacity: int = 0, wait_s: float = 0, **more: Any) -> TurnAnswer:
    asked = Turn(worker_id=worker.worker_id, reports=reports, capacity=capacity, **more)
    answer = await sent(worker, msgspec.json.encode(asked), wait_s)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=TurnAnswer)


async def sent(worker: httpx2.AsyncClient, body: bytes, wait_s: float = 0) -> httpx2.Response:
    headers = {"content-type": "application/json"}
    return await worker.post("/api/orders/turn", content=body, params={"wait_s": wait_s}, headers=headers)


def done(worker: WorkerClient, order: Order, result: Any = 1, **more: Any) -> Report:
    task_run_id = f"{order.step_run_id}/work"
    meta = Meta(attempt=1, started_at=1.0, finished_at=2.0, trace_id=order.trace_id, task_run_id=task_run_id)
    processed = TaskProcessed(
        task="work",
        visit=1,
        attempt=1,
        task_run_id=task_run_id,
        outcome=Outcome(status=Status.SUCCESS, meta=meta, result=result),
        decision=Decided(rule="default", do="continue"),
    )
    entries = (Timed(2.0, processed), Timed(2.0, StepDone(result=TaskResult(result=result))))
    return Report(
        order_id=order.order_id,
        execution_id=order.execution_id,
        lease_epoch=order.lease_epoch,
        worker_id=worker.worker_id,
        entries=entries,
        **more,
    )


def starting(worker: WorkerClient, order: Order) -> Report:
    """The start of its task."""
    task_run_id = f"{order.step_run_id}/work"
    started = TaskStarted(
        task="work", kind="python", visit=1, attempt=1, task_run_id=task_run_id, worker_id=worker.worker_id
    )
    return Report(
        order_id=order.order_id,
        execution_id=order.execution_id,
        lease_epoch=order.lease_epoch,
        worker_id=worker.worker_id,
        entries=(Timed(1.0, started),),
    )


async def begun(talk: Talk, text: str = WORK) -> tuple[WorkerClient, str]:
    await talk.register(text)
    return await talk.as_worker(), str((await talk.start())["execution_id"])


async def holding(talk: Talk, text: str = WORK, payload: dict[str, Any] | None = None) -> tuple[WorkerClient, Order]:
    """A worker that holds an order of a new execution."""
    await talk.register(text)
    worker = await talk.as_worker()
    await talk.start(payload=payload)
    (order,) = (await turn(worker, capacity=1, wait_s=10)).orders
    return worker, order


def storing(worker: WorkerClient, order: Order) -> dict[str, str]:
    """The query with which it stores a large value of the order."""
    return {"worker_id": worker.worker_id, "execution_id": order.execution_id}


CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: child, path: tests/child}
workflow: [{step: start, tool: [{name: work, kind: python, code: "result = 1"}]}]
"""
