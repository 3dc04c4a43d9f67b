"""Attacks with a worker's token on what other workers hold: ids, orders, secrets, results and nested playbooks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.engine.pipeline.progress import task_run_id
from noetl.events.orders import Order, Turn, TurnAnswer
from noetl.events.outcomes import PARQUET
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.store.contract import OrderRow
from noetl.tools.registry import Registry
from noetl.worker.identity import own_worker_id
from noetl.worker.remote_worker import RemoteWorker, WorkerSpec
from tests.server.live import live
from tests.server.talking import Talk, WorkerClient, talking
from tests.server.worker_turns import CHILD, WORK, done, turn

pytestmark = pytest.mark.req("WRK-09", "SRV-04")

OTHER_CHILD = CHILD.replace("name: child, path: tests/child", "name: other, path: tests/other")
CALLER = """
workload: {amount: 10}
workflow:
  - step: start
    tool:
      - {name: rest, kind: noop}
      - name: work
        kind: playbook
        path: tests/child
        args: {amount: "{{ workload.amount }}", fixed: [1, two], said: "as {{ _prev }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop}
"""
LOOPED = """
workload: {amounts: [10, 20]}
workflow:
  - step: start
    loop: {in: "{{ workload.amounts }}", iterator: amount, spec: {mode: parallel, max_in_flight: 2}}
    tool: [{name: work, kind: playbook, path: tests/child, args: {amount: "{{ iter.amount }}"}}]
"""


class Holding:
    """A tool that never ends by itself."""

    def __init__(self) -> None:
        self.is_running = asyncio.Event()

    async def run(self, inputs: Mapping[str, Any], context: Any) -> Any:
        self.is_running.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is open."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


async def sent(worker: httpx2.AsyncClient, asked: Turn) -> httpx2.Response:
    headers = {"content-type": "application/json"}
    return await worker.post("/api/orders/turn", content=msgspec.json.encode(asked), headers=headers)


async def held(talk: Talk, worker_id: str) -> list[OrderRow]:
    return await talk.services.store.held_by(worker_id)


async def refusals(talk: Talk) -> list[str]:
    return [row.action for row in await talk.services.store.audit.newest(limit=50) if row.outcome == "403"]


async def test_no_token_can_act_for_the_in_process_worker() -> None:
    tool = Holding()
    async with talking(workers=1, tools={"python": tool}) as talk:
        await talk.register(WORK)
        await talk.start()
        async with asyncio.timeout(60):
            await tool.is_running.wait()
        victim = own_worker_id()
        [row] = await held(talk, victim)
        thief = await talk.as_worker("thief", pools=("other",))
        asked = Turn(worker_id=victim, capacity=5, pools=("other",), holding={})
        stolen = await sent(thief, asked)
        beat = await thief.post("/api/orders/heartbeat", json={"worker_id": victim, "leases": {row.order_id: 1}})
        ask = {"execution_id": row.execution_id, "order_id": row.order_id, "lease_epoch": 1, "name": "x"}
        secret = await thief.post("/api/orders/secret", json={**ask, "worker_id": victim})
        removed = await thief.delete(f"/api/workers/{victim.replace('/', '%2F')}")

        assert [one.status_code for one in (stolen, beat, secret, removed)] == [403, 403, 403, 403]
        assert [one.order_id for one in await held(talk, victim)] == [row.order_id]
        assert len(await refusals(talk)) == 4, "operators see who tried"


async def test_an_unregistered_worker_id_is_refused_everywhere() -> None:
    async with talking(workers=0) as talk:
        await talk.register(WORK)
        started = await talk.start()
        worker = await talk.as_worker()
        await worker.delete(f"/api/workers/{worker.worker_id}")
        order = {"execution_id": started["execution_id"], "order_id": "o", "lease_epoch": 1}
        call = {**order, "step_run_id": "r", "task_run_id": "t", "path": "tests/child"}
        answers = []
        for worker_id in (worker.worker_id, "made-up", ""):
            answers += [
                await sent(worker, Turn(worker_id=worker_id, capacity=1)),
                await worker.post("/api/orders/heartbeat", json={"worker_id": worker_id, "leases": {}}),
                await worker.post("/api/orders/secret", json={**order, "worker_id": worker_id, "name": "x"}),
                await worker.post("/api/orders/call", json={**call, "worker_id": worker_id}),
                await worker.post(
                    "/api/orders/give-up", json={"call": {**call, "worker_id": worker_id}, "reason": "none"}
                ),
            ]

        assert {answer.status_code for answer in answers} == {403}
        assert {answer.json()["type"] for answer in answers} == {"urn:noetl:problem:unregistered"}


async def test_an_order_is_offered_again_to_its_own_pool_only() -> None:
    async with talking(workers=0) as talk:
        await talk.register(WORK)
        await talk.start()
        worker = await talk.as_worker(pools=("default", "other"))
        [order] = (await turn(worker, capacity=1)).orders
        elsewhere = await turn(worker, capacity=1, pools=("other",), holding={})
        again = await turn(worker, capacity=1, pools=("default",), holding={})

        assert elsewhere.orders == ()
        assert [one.order_id for one in again.orders] == [order.order_id]


def call_of(worker: WorkerClient, order: Order, path: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "execution_id": order.execution_id,
        "step_run_id": order.step_run_id,
        "order_id": order.order_id,
        "lease_epoch": order.lease_epoch,
        "worker_id": worker.worker_id,
        "task_run_id": task_run_id(order.step_run_id, order.position, path),
        "path": "tests/child",
        "wait": False,
        **more,
    }


async def begun(talk: Talk, text: str) -> tuple[WorkerClient, Order]:
    await talk.register(CHILD)
    await talk.register(OTHER_CHILD)
    await talk.register(text)
    worker = await talk.as_worker()
    await talk.start()
    [order] = (await turn(worker, capacity=1)).orders
    return worker, order


async def children(talk: Talk) -> int:
    return len((await talk.get("/api/executions"))["executions"]) - 1


SIMPLE = CALLER.replace("      - {name: rest, kind: noop}\n", "")


@pytest.mark.parametrize(
    "change",
    [
        {"path": "tests/other"},
        {"version": "1"},
        {"payload": {"amount": 1_000_000, "fixed": [1, "two"], "said": "as "}},
        {"payload": {"amount": 10, "fixed": [1, "three"], "said": "as "}},
        {"payload": {"amount": 10, "fixed": [1, "two"], "said": "is "}},
        {"payload": {"amount": 10, "fixed": [1, "two"], "said": "as ", "more": 1}},
        {"payload": {}},
        {"task_run_id": "t2"},
        {"step_run_id": "another"},
        {"compensates": "another"},
    ],
    ids=str,
)
async def test_a_call_can_start_only_what_its_task_renders(change: dict[str, Any]) -> None:
    async with talking(workers=0) as talk:
        worker, order = await begun(talk, SIMPLE)
        right: dict[str, Any] = {"payload": {"amount": 10, "fixed": [1, "two"], "said": "as "}}
        forged = await worker.post("/api/orders/call", json=call_of(worker, order, **{**right, **change}))
        before = await children(talk)
        true = await worker.post("/api/orders/call", json=call_of(worker, order, **right))
        again = await worker.post("/api/orders/call", json=call_of(worker, order, **right))

        assert forged.status_code == 403, forged.text
        assert before == 0
        assert "POST /api/orders/call" in await refusals(talk)
        assert (true.status_code, again.status_code) == (200, 200), true.text
        assert await children(talk) == 1, "one child for one task run"


async def test_an_iteration_can_call_with_its_own_item_only() -> None:
    async with talking(workers=0) as talk:
        worker, order = await begun(talk, LOOPED)
        not_begun = await worker.post("/api/orders/call", json=call_of(worker, order, (0,), payload={"amount": 10}))

        assert not_begun.status_code == 403, "what has not begun calls nothing"
        assert await children(talk) == 0


async def test_playbooks_with_nested_ones_run_on_a_remote_worker() -> None:
    """What a real worker renders is what the server expects, in loops and after a noop."""
    async with live(workers=0) as (served, _, talk):
        await talk.register(CHILD)
        wanted = TokenRequest(subject="worker", role=Role.WORKER, pools=("default",))
        token, _ = await served.services.access.tokens.create(wanted)
        station = RemoteWorker(WorkerSpec(url=served.url, name="far", token=token), Registry())
        working = asyncio.create_task(station.serve())
        ended = [await talk.ran(text) for text in (CALLER, LOOPED)]
        told = [await talk.get(f"/api/executions/{one}") for one in ended]
        station.drain()
        await working

    assert [one["status"] for one in told] == ["completed", "completed"], told


async def test_another_worker_of_the_same_token_cannot_call_or_give_up_for_the_holder() -> None:
    async with talking(workers=0) as talk:
        worker, order = await begun(talk, SIMPLE)
        right = call_of(worker, order, payload={"amount": 10, "fixed": [1, "two"], "said": "as "})
        child = (await worker.post("/api/orders/call", json=right)).json()["execution_id"]
        other = {"name": "other", "instance": "2"}
        other_id = (await worker.post("/api/workers", json=other)).json()["worker_id"]
        give_up = {"reason": "to do harm"}
        forged = await worker.post("/api/orders/give-up", json={"call": {**right, "worker_id": other_id}, **give_up})
        elsewhere = await worker.post("/api/orders/give-up", json={"call": {**right, "task_run_id": "t9"}, **give_up})
        status = (await talk.get(f"/api/executions/{child}"))["status"]
        true = await worker.post("/api/orders/give-up", json={"call": right, **give_up})

        assert [forged.status_code, elsewhere.status_code] == [403, 403]
        assert status == "running"
        assert true.status_code == 204
        assert (await talk.get(f"/api/executions/{child}"))["status"] == "cancelled"


async def test_another_worker_cannot_call_for_the_holder_or_read_the_child_result() -> None:
    async with talking(workers=0, call_poll_s=60.0) as talk:
        worker, order = await begun(talk, SIMPLE)
        thief = await talk.as_worker("thief", pools=("other",))
        right = call_of(worker, order, payload={"amount": 10, "fixed": [1, "two"], "said": "as "}, wait=True)
        early = await thief.post("/api/orders/call", json={**right, "worker_id": thief.worker_id})
        before = await children(talk)
        holder = asyncio.create_task(worker.post("/api/orders/call", json=right))
        while not talk.services.calls:
            await asyncio.sleep(0.01)
        asked = [{**right, "worker_id": thief.worker_id, "lease_epoch": epoch} for epoch in (order.lease_epoch, 0, 9)]
        listening = [asyncio.create_task(thief.post("/api/orders/call", json=one)) for one in asked]
        child = None
        while child is None:
            await asyncio.sleep(0.01)  # a request to a server in this process need not let others run
            found = (await talk.get("/api/executions"))["executions"]
            child = next((one["execution_id"] for one in found if one["path"] == "tests/child"), None)
        await talk.post(f"/api/executions/{child}/cancel")
        answers = [await one for one in listening]
        true = await holder

        assert (early.status_code, before) == (403, 0)
        assert [answer.is_error for answer in answers] == [True, True, True], [answer.text for answer in answers]
        assert answers[0].status_code == 403
        assert all(str(child) not in answer.text for answer in answers)
        assert true.json()["execution_id"] == child
        assert "POST /api/orders/call" in await refusals(talk)


async def test_a_call_for_an_unknown_step_run_cancels_no_child() -> None:
    async with talking(workers=0) as talk:
        worker, order = await begun(talk, SIMPLE)
        right = call_of(worker, order, payload={"amount": 10, "fixed": [1, "two"], "said": "as "})
        child = (await worker.post("/api/orders/call", json=right)).json()["execution_id"]
        gone = {**right, "wait": True, "step_run_id": "never", "order_id": "none", "lease_epoch": 9}
        answer = await worker.post("/api/orders/call", json=gone)

        assert answer.status_code in (403, 422)
        assert (await talk.get(f"/api/executions/{child}"))["status"] == "running"


async def test_a_report_on_an_order_of_another_worker_is_refused_and_recorded() -> None:
    async with talking(workers=0) as talk:
        await talk.register(WORK)
        execution_id = (await talk.start())["execution_id"]
        worker, thief = await talk.as_worker(), await talk.as_worker("thief")
        [order] = (await turn(worker, capacity=1)).orders
        forged = await turn(thief, done(thief, order, "forged"))
        events = [one["name"] for one in (await talk.get(f"/api/executions/{execution_id}/events"))["events"]]

        assert isinstance(forged, TurnAnswer)
        assert [str(verdict) for verdict in forged.verdicts] == ["fenced"]
        assert "step.done" not in events


async def stored(
    sender: WorkerClient, worker_id: str, execution_id: str, kind: str = "application/json"
) -> httpx2.Response:
    """The answer to a request to store a large value."""
    body = b"PAR1" if kind == PARQUET else msgspec.json.encode("x" * 100_000)
    place = f"/api/results/{hashlib.sha256(body).hexdigest()}{'/table' if kind == PARQUET else ''}"
    query = {"worker_id": worker_id, "execution_id": execution_id}
    return await sender.put(place, content=body, params=query, headers={"content-type": kind})


@pytest.mark.req("KEY-06", "RES-01")
async def test_a_worker_stores_large_values_only_for_executions_with_its_orders() -> None:
    async with talking(workers=0) as talk:
        await talk.register(WORK)
        worker, neighbour = await talk.as_worker(), await talk.as_worker("neighbour")
        mine = str((await talk.start())["execution_id"])
        [order] = (await turn(worker, capacity=1)).orders
        other = str((await talk.start())["execution_id"])
        [_] = (await turn(neighbour, capacity=1)).orders
        refused = [
            await stored(worker, worker.worker_id, other),
            await stored(worker, worker.worker_id, other, PARQUET),
            await stored(worker, neighbour.worker_id, other),  # in the name of its holder
            await stored(worker, own_worker_id(), other),
        ]
        true = await stored(worker, worker.worker_id, mine)
        await turn(worker, done(worker, order))
        late = await stored(worker, worker.worker_id, mine)

        assert [one.status_code for one in (*refused, late)] == [403] * 5
        assert "holds no order of the execution" in refused[0].json()["detail"]
        assert true.status_code == 200, true.text
        assert sum(one.startswith("PUT /api/results/") for one in await refusals(talk)) == 5


async def test_a_worker_stores_large_values_until_another_claims_its_order() -> None:
    clock = ManualClock()
    async with talking(workers=0, clock=clock, lease_ttl_s=30.0) as talk:
        await talk.register(WORK)
        first, second = await talk.as_worker(), await talk.as_worker("second")
        execution_id = str((await talk.start())["execution_id"])
        claimed = []
        for worker in (first, second, first):
            [order] = (await turn(worker, capacity=1)).orders
            claimed.append(order)
            clock.advance(29.0)
            kept = await stored(worker, worker.worker_id, execution_id)
            clock.advance(2.0)  # nobody has taken it yet
            overdue = await stored(worker, worker.worker_id, execution_id)
            assert (kept.status_code, overdue.status_code) == (200, 200)
        taken = await stored(second, second.worker_id, execution_id)

    assert [one.lease_epoch for one in claimed] == [1, 2, 3]
    assert taken.status_code == 403
