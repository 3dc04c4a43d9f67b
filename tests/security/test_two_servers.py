"""Attacks at the second of two servers on one PostgreSQL: what the first one has refused, ended or answered already."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from noetl.base.clock import ManualClock
from noetl.events.orders import Order, Turn
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.store.results.files import MemoryResults
from tests.control.servers import connections
from tests.server.talking import PROTOCOL, Talk, WorkerClient, talking
from tests.server.worker_turns import READING, WORK, done, sent, turn

SECRET = "correct-horse-battery"


DECISION = """
workflow:
  - step: start
    human_task:
      title: Pay?
      form: [{field: decision, type: enum, options: [approve, reject], required: true}]
"""


class Pair:
    def __init__(self, first: Talk, second: Talk, clock: ManualClock) -> None:
        self.first, self.second, self.clock = first, second, clock

    def at_second(self, client: httpx2.AsyncClient) -> WorkerClient:
        """The same caller at the other server."""
        told = {name: client.headers[name] for name in ("authorization", *PROTOCOL) if name in client.headers}
        there = self.second.with_token(None, **told)
        there.worker_id = getattr(client, "worker_id", "")
        return there


@pytest_asyncio.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    monkeypatch.setenv("ORDERS_API_KEY", SECRET)
    clock, results = ManualClock(), MemoryResults()
    async with AsyncExitStack() as stack:
        stores = await stack.enter_async_context(connections("postgres", tmp_path, 2))
        first, second = [
            await stack.enter_async_context(
                talking(workers=0, store=store, results=results, clock=clock, lease_ttl_s=30.0)
            )
            for store in stores
        ]
        yield Pair(first, second, clock)


async def one_order(worker: WorkerClient) -> Order:
    async with asyncio.timeout(60):
        while not (orders := (await turn(worker, capacity=1, wait_s=1)).orders):
            pass
    return orders[0]


async def taken_over(pair: Pair, text: str) -> tuple[WorkerClient, Order, WorkerClient, Order]:
    """An order that a worker took at the first server, and, when its lease had run out, another at the second."""
    await pair.first.register(text)
    await pair.first.start()
    slow = await pair.first.as_worker("slow")
    stale = await one_order(slow)
    pair.clock.advance(31.0)
    quick = await pair.second.as_worker("quick")
    return slow, stale, quick, await one_order(quick)


@pytest.mark.req("WRK-09", "SRV-04")
async def test_a_worker_whose_lease_another_server_gave_away_can_do_nothing_at_either(pair: Pair) -> None:
    slow, stale, quick, fresh = await taken_over(pair, READING)
    answers = dict[str, Any]()
    for name, client in (("first", slow), ("second", pair.at_second(slow))):
        held = {"execution_id": stale.execution_id, "order_id": stale.order_id, "worker_id": slow.worker_id}
        secrets = [
            await client.post("/api/orders/secret", json={**held, "lease_epoch": epoch, "name": "api"})
            for epoch in (stale.lease_epoch, fresh.lease_epoch)
        ]
        body = msgspec.json.encode("x" * 100_000)
        query = {"worker_id": slow.worker_id, "execution_id": stale.execution_id}
        kept = await client.put(
            f"/api/results/{hashlib.sha256(body).hexdigest()}",
            content=body,
            params=query,
            headers={"content-type": "application/json"},
        )
        beat = await client.post(
            "/api/orders/heartbeat", json={"worker_id": slow.worker_id, "leases": {stale.order_id: stale.lease_epoch}}
        )
        forged = await client.post(
            "/api/orders/heartbeat", json={"worker_id": slow.worker_id, "leases": {stale.order_id: fresh.lease_epoch}}
        )
        reports = [done(slow, stale, "late"), done(slow, fresh, "forged")]
        verdicts = [str(verdict) for report in reports for verdict in (await turn(client, report)).verdicts]
        answers[name] = (
            [one.status_code for one in (*secrets, kept)],
            [one.json()["lost"] for one in (beat, forged)],
            verdicts,
        )

    refused = ([403, 403, 403], [[stale.order_id]] * 2, ["fenced", "fenced"])
    assert answers == {"first": refused, "second": refused}
    assert [str(verdict) for verdict in (await turn(quick, done(quick, fresh, "right"))).verdicts] == ["accepted"]


@pytest.mark.req("WRK-09", "SRV-04")
async def test_a_worker_id_of_one_server_is_of_its_token_at_the_other(pair: Pair) -> None:
    victim = await pair.first.as_worker("victim")
    thief = await pair.second.as_worker("thief", pools=("other",))
    stolen = await sent(thief, msgspec.json.encode(Turn(worker_id=victim.worker_id, capacity=1)))
    removed = await thief.delete(f"/api/workers/{victim.worker_id}")
    own = await sent(pair.at_second(victim), msgspec.json.encode(Turn(worker_id=victim.worker_id, capacity=1)))

    assert [stolen.status_code, removed.status_code, own.status_code] == [403, 403, 200]


@pytest.mark.req("WRK-09", "SRV-04")
async def test_a_worker_that_was_removed_at_one_server_is_unknown_at_the_other(pair: Pair) -> None:
    worker = await pair.first.as_worker("leaving")
    there = pair.at_second(worker)
    known = await sent(there, msgspec.json.encode(Turn(worker_id=worker.worker_id, capacity=1)))
    await worker.delete(f"/api/workers/{worker.worker_id}")
    pair.clock.advance(31.0)  # a server writes and reads the row of a worker twice a minute
    gone = await sent(there, msgspec.json.encode(Turn(worker_id=worker.worker_id, capacity=1)))

    assert (known.status_code, gone.status_code) == (200, 403)


@pytest.mark.req("SRV-04")
async def test_what_ends_at_one_server_ends_at_the_other(pair: Pair) -> None:
    text, token = await pair.first.services.access.tokens.create(TokenRequest(subject="ann", role=Role.OPERATOR))
    here, there = pair.first.with_token(None), pair.second.with_token(None)
    signed_in = await here.post("/api/session", json={"token": text})
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    before = await there.get("/api/executions", headers={"cookie": cookie})
    by_token = pair.second.with_token(text)
    known = await by_token.get("/api/executions")
    await pair.first.client.delete(f"/api/tokens/{token.token_id}")
    pair.clock.advance(1.5)
    after = [await there.get("/api/executions", headers={"cookie": cookie}), await by_token.get("/api/executions")]

    assert [before.status_code, known.status_code] == [200, 200]
    assert [one.status_code for one in after] == [401, 401]


@pytest.mark.req("SRV-04")
async def test_the_limit_of_wrong_tokens_holds_at_each_server_and_keeps_no_valid_token_out(pair: Pair) -> None:
    statuses = []
    for talk in (pair.first, pair.second):
        wrong = talk.with_token("noetl_wrong_token")
        statuses.append([(await wrong.get("/api/executions")).status_code for _ in range(30)])

    assert [(one.count(401), one.count(429)) for one in statuses] == [(20, 10)] * 2
    assert (await pair.second.client.get("/api/executions")).status_code == 200


@pytest.mark.req("SRV-04")
async def test_the_chain_of_the_audit_log_is_whole_after_two_servers_have_written_at_once(pair: Pair) -> None:
    async def writes(talk: Talk, name: str) -> None:
        for number in range(15):
            body = {"subject": f"{name} {number}", "role": "viewer"}
            assert (await talk.client.post("/api/tokens", json=body)).status_code == 201

    servers = {"first": pair.first, "second": pair.second}
    await asyncio.gather(*(writes(talk, f"{name} {number}") for number in range(3) for name, talk in servers.items()))
    checks = [await talk.get("/api/audit/verify") for talk in (pair.first, pair.second)]

    assert [one["rows"] for one in checks] == [90, 90]
    assert checks[0] == checks[1]
    assert checks[0].get("broken_at") is None


@pytest.mark.req("SRV-04")
async def test_one_idempotency_key_at_both_servers_at_once_starts_one_execution(pair: Pair) -> None:
    await pair.first.register(WORK)
    text, _ = await pair.first.services.access.tokens.create(TokenRequest(subject="ann", role=Role.OPERATOR))
    clients = [pair.first.with_token(text), pair.second.with_token(text)] * 4
    headers = {"idempotency-key": "one"}
    starts = (client.post("/api/executions", json={"path": "tests/test"}, headers=headers) for client in clients)
    answers = await asyncio.gather(*starts)

    started = [one.json()["execution_id"] for one in answers if one.status_code == 201]
    assert len(set(started)) == 1
    assert {one.status_code for one in answers} <= {201, 409}
    assert len((await pair.second.get("/api/executions"))["executions"]) == 1


@pytest.mark.req("HUM-02")
async def test_of_two_decisions_at_both_servers_at_once_one_counts(pair: Pair) -> None:
    registered = await pair.first.register(DECISION)
    ann = await pair.first.as_role(Role.VIEWER, human_roles=("manager",))
    bob = pair.at_second(await pair.first.as_role(Role.OPERATOR))
    for _ in range(10):
        started = await pair.first.start(registered["path"], {})
        async with asyncio.timeout(60):
            while not (tasks := (await pair.first.get("/api/tasks"))["tasks"]):
                await asyncio.sleep(0.02)
        url = f"/api/tasks/{tasks[0]['task_id']}/complete"
        decisions = ("approve", "reject")

        answers = await asyncio.gather(
            *(
                person.post(url, json={"values": {"decision": decision}})
                for person, decision in zip((ann, bob), decisions, strict=True)
            )
        )

        assert sorted(answer.status_code for answer in answers) == [200, 409], [answer.text for answer in answers]
        [won] = [decision for answer, decision in zip(answers, decisions, strict=True) if answer.status_code == 200]
        for server in (pair.first, pair.second):
            log = (await server.get(f"/api/executions/{started['execution_id']}/events"))["events"]
            completed = [one["payload"]["result"] for one in log if one["event_type"] == "task.completed"]
            assert completed == [{"decision": won}]
