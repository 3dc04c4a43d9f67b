"""Large values that workers store for executions with secrets: they are masked, and the server's process neither
decodes nor searches anything large in one go."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from noetl.base import redaction
from noetl.control.commit.sharing import NEAR_BYTES
from noetl.events.orders import Order
from noetl.operations import value_pages
from noetl.server import computations
from tests.server.talking import WorkerClient, talking
from tests.server.worker_turns import READING, holding, storing

SECRET = "correct-horse-battery"


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of values that this process decodes or masks whole."""
    sizes, decode, mask = [0], msgspec.json.decode, value_pages.masked_value

    def noted(body: Any, **more: Any) -> Any:
        if not more:
            sizes.append(len(body))
        return decode(body, **more)

    def noted_mask(body: bytes, redactor: redaction.Redactor) -> bytes:
        sizes.append(len(body))
        return mask(body, redactor)

    monkeypatch.setattr(msgspec.json, "decode", noted)
    monkeypatch.setattr(computations, "masked_value", noted_mask)
    return sizes


async def read_secret(worker: WorkerClient, order: Order) -> None:
    asked = {"execution_id": order.execution_id, "order_id": order.order_id, "lease_epoch": order.lease_epoch}
    answer = await worker.post("/api/orders/secret", json={**asked, "worker_id": worker.worker_id, "name": "api"})
    assert answer.json()["fields"]["value"] == SECRET, answer.text


@pytest.mark.req("KEY-06", "RES-05")
@pytest.mark.parametrize("place", ["none", "the beginning", "the end", "the border of two pieces"])
async def test_a_large_value_of_an_execution_with_secrets_is_masked_outside_of_the_server(
    monkeypatch: pytest.MonkeyPatch, encoded: list[int], place: str
) -> None:
    monkeypatch.setenv("ORDERS_API_KEY", SECRET)
    rows = ["x" * 997] * (4 * NEAR_BYTES // 1_000)
    where = {"none": None, "the beginning": 0, "the end": -1, "the border of two pieces": NEAR_BYTES // 1_000}[place]
    if where is not None:
        rows[where] = (SECRET * 60)[:997]
    body = msgspec.json.encode(rows)
    async with talking(workers=0) as talk:
        worker, order = await holding(talk, READING)
        await read_secret(worker, order)
        encoded.clear()
        stored = await worker.put(
            f"/api/results/{hashlib.sha256(body).hexdigest()}",
            content=body,
            params=storing(worker, order),
            headers={"content-type": "application/json"},
        )
        largest = max(encoded, default=0)
        kept = await talk.services.results.fetch(stored.json()["checksum"])

    assert largest <= NEAR_BYTES
    assert SECRET.encode() not in kept
    assert (kept == body) is (where is None)
    assert msgspec.json.decode(kept)[5] == rows[5]
