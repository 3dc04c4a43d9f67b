"""Batches of live output that a worker sends, and the lines that people read."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec

from noetl.events.orders import Order, OutputBatch, OutputChunk
from tests.server.talking import Talk, WorkerClient


def chunk(order: Order, *lines: str, **more: Any) -> OutputChunk:
    about = {
        "execution_id": order.execution_id,
        "order_id": order.order_id,
        "lease_epoch": order.lease_epoch,
        "task": "work",
        "task_run_id": "run-1",
        "lines": lines,
    }
    return OutputChunk(**{**about, **more})


async def tell(worker: WorkerClient, *chunks: OutputChunk, worker_id: str | None = None) -> httpx2.Response:
    batch = OutputBatch(worker_id=worker_id or worker.worker_id, chunks=chunks)
    headers = {"content-type": "application/json"}
    return await worker.post("/api/orders/output", content=msgspec.json.encode(batch), headers=headers)


async def texts(talk: Talk, execution_id: str, after: str = "") -> list[str]:
    page = await talk.get(f"/api/executions/{execution_id}/output", params={"after": after})
    return [line["text"] for task in page["tasks"] for line in task["lines"]]
