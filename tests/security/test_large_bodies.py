"""Attacks with the largest bodies: what a server's event loop does for one of them is bounded, so that others are
served meanwhile. `bench/stalls.py` measures it on a real server, route by route."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from noetl.base.redaction import Redactor
from noetl.control.commit.sharing import NEAR_BYTES
from noetl.control.secrets import execution_secrets
from noetl.engine.pipeline import result_schemas
from noetl.events import secret_materials
from noetl.events.orders import MAX_TURN_BYTES, MAX_TURN_ENTRIES, MAX_TURN_REPORTS, Report, Turn, read_turn
from noetl.server.routes import orders as order_routes
from noetl.store import installation
from tests.server.talking import WorkerClient, talking
from tests.server.worker_turns import READING, WORK, done, holding, sent, starting

SECRET = "correct-horse-battery"


def body_of(worker: WorkerClient, *reports: Report) -> bytes:
    return msgspec.json.encode(Turn(worker_id=worker.worker_id, reports=reports))


def empty(report: Report) -> Report:
    return msgspec.structs.replace(report, entries=())


@pytest.mark.req("SRV-04")
async def test_a_turn_has_bounded_bytes_reports_and_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def noted(body: bytes) -> Turn:
        read.append(len(body))
        return read_turn(body)

    monkeypatch.setattr(order_routes, "read_turn", noted)
    async with talking(workers=0) as talk:
        worker, order = await holding(talk, WORK)
        report = starting(worker, order)
        long = msgspec.structs.replace(report, entries=report.entries * (MAX_TURN_ENTRIES + 1))
        large = await sent(worker, body_of(worker, done(worker, order, "x" * MAX_TURN_BYTES)))
        many = await sent(worker, body_of(worker, *[empty(report)] * (MAX_TURN_REPORTS + 1)))
        much = await sent(worker, body_of(worker, long))
        most = await sent(worker, body_of(worker, *[empty(report)] * MAX_TURN_REPORTS))

    assert [large.status_code, many.status_code, much.status_code, most.status_code] == [413, 422, 422, 200]
    assert max(read) < MAX_TURN_BYTES, "what is too large is not decoded"
    for refused in (many, much):
        assert f"at most {MAX_TURN_REPORTS} reports with {MAX_TURN_ENTRIES} entries" in refused.json()["detail"]


@pytest.mark.req("SRV-04", "RES-03")
async def test_a_large_turn_is_decoded_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop, elsewhere = [0], [0]

    def noted(body: bytes) -> Turn:
        (on_loop if threading.current_thread() is threading.main_thread() else elsewhere).append(len(body))
        return read_turn(body)

    monkeypatch.setattr(order_routes, "read_turn", noted)
    async with talking(workers=0) as talk:
        worker, order = await holding(talk, WORK)
        answer = await sent(worker, body_of(worker, done(worker, order, "x" * 3_000_000)))

    assert answer.json()["verdicts"] == ["accepted"]
    assert max(on_loop) <= NEAR_BYTES
    assert max(elsewhere) > 6_000_000


@pytest.mark.req("KEY-06", "SRV-04")
async def test_a_large_turn_is_masked_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_API_KEY", SECRET)
    threads, mask = list[bool](), secret_materials.masked

    def noted(report: Report, redactor: Redactor) -> Report:
        threads.append(threading.current_thread() is threading.main_thread())
        return mask(report, redactor)

    monkeypatch.setattr(execution_secrets, "masked", noted)
    async with talking(workers=0) as talk:
        worker, order = await holding(talk, READING)
        ask = {"execution_id": order.execution_id, "order_id": order.order_id, "lease_epoch": order.lease_epoch}
        await worker.post("/api/orders/secret", json={**ask, "worker_id": worker.worker_id, "name": "api"})
        answer = await sent(worker, body_of(worker, done(worker, order, ["x" * NEAR_BYTES, SECRET])))
        events = await talk.services.store.events(order.execution_id)

    assert answer.json()["verdicts"] == ["accepted"]
    assert threads == [False]
    assert SECRET not in str(events)


async def test_a_result_schema_is_checked_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, check = list[bool](), result_schemas.schema_problem

    def noted(schema: Any) -> str | None:
        threads.append(threading.current_thread() is threading.main_thread())
        return check(schema)

    monkeypatch.setattr(installation, "schema_problem", noted)
    async with talking(workers=0) as talk:
        answer = await talk.client.put("/api/schemas/orders", json={"schema": {"anyOf": [{"type": "object"}] * 100}})

    assert answer.status_code == 200
    assert threads == [False]


class LoopTurns:
    """Counts how often the event loop went on to others while something was done."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> LoopTurns:
        self._task = asyncio.ensure_future(self._run())
        await asyncio.sleep(0)
        self.count = 0
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


async def loop_turns(worker: WorkerClient, path: str, body: Mapping[str, Any] | bytes) -> int:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    async with LoopTurns() as turns:
        answer = await worker.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    return turns.count


@pytest.mark.req("SRV-04", "WRK-03")
async def test_others_are_served_while_a_worker_names_many_orders() -> None:
    async with talking(workers=0) as talk:
        worker, order = await holding(talk, WORK)
        report = empty(starting(worker, order))
        turns = [
            await loop_turns(worker, "/api/orders/turn", body_of(worker, *[report] * number)) for number in (1, 1_000)
        ]
        beats = [
            await loop_turns(
                worker,
                "/api/orders/heartbeat",
                {"worker_id": worker.worker_id, "leases": {f"o{one}": 1 for one in range(number)}},
            )
            for number in (1, 20_000)
        ]

    assert turns[1] >= turns[0] + 5
    assert beats[1] >= beats[0] + 300
