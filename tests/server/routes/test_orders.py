"""What workers say to the server and hear from it: turns, heartbeats, secrets, nested playbooks, large values."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import msgspec
import pytest

from noetl.engine.pipeline.progress import task_run_id
from noetl.events.orders import Order, ReportResult, Turn
from noetl.events.outcomes import PARQUET
from noetl.net.net import from_json
from noetl.operations.administration_shapes import Role
from tests.server.talking import WorkerClient, talking
from tests.server.worker_turns import CHILD, WORK, begun, done, holding, sent, storing, turn


@pytest.mark.req("WRK-01", "EVT-06")
async def test_a_worker_claims_and_reports_and_a_repeated_report_changes_nothing() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        net = from_json((await worker.get(f"/api/nets/{order.net_hash}")).content)
        first = await turn(worker, done(worker, order))
        again = await turn(worker, done(worker, order), done(worker, order))
        events = (await talk.get(f"/api/executions/{execution_id}/events"))["events"]

        assert net.path == "tests/test"
        assert first.verdicts == (ReportResult.ACCEPTED,)
        assert set(again.verdicts) <= {ReportResult.DUPLICATE, ReportResult.TERMINAL}
        assert [one["name"] for one in events].count("step.done") == 2
        assert (await talk.get(f"/api/executions/{execution_id}"))["status"] == "completed"


@pytest.mark.req("SRV-04")
async def test_a_report_with_a_next_step_is_recorded_as_refused_and_starts_nothing() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        forged = {
            "worker_id": worker.worker_id,
            "reports": [{**msgspec.to_builtins(done(worker, order)), "next": "end"}],
        }
        answer = await sent(worker, msgspec.json.encode(forged))
        names = [one["name"] for one in (await talk.get(f"/api/executions/{execution_id}/events"))["events"]]

        assert answer.json()["verdicts"] == ["refused"]
        assert "report.refused" in names
        assert "next.enqueued" not in names
        assert (await talk.get(f"/api/executions/{execution_id}"))["status"] == "running"


async def test_a_long_poll_is_answered_when_an_order_is_ready() -> None:
    async with talking(workers=0) as talk:
        await talk.register(WORK)
        worker = await talk.as_worker()
        polling = asyncio.create_task(turn(worker, capacity=1, wait_s=30))
        await asyncio.sleep(0.05)
        assert not polling.done()
        started = await talk.start()
        async with asyncio.timeout(60):
            answer = await polling

        assert [order.execution_id for order in answer.orders] == [started["execution_id"]]


async def test_a_long_poll_without_orders_ends_in_time() -> None:
    async with talking(workers=0) as talk:
        worker = await talk.as_worker()
        async with asyncio.timeout(60):
            answer = await turn(worker, capacity=1, wait_s=0.1)

        assert answer.orders == ()


@pytest.mark.req("WRK-03")
async def test_heartbeats_return_lost_leases() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        beat = {"worker_id": worker.worker_id, "leases": {order.order_id: order.lease_epoch, "another": 1}}
        before = await worker.post("/api/orders/heartbeat", json=beat)
        await talk.post(f"/api/executions/{execution_id}/cancel")
        after = await worker.post("/api/orders/heartbeat", json=beat)

        assert before.json()["lost"] == ["another"]
        assert set(after.json()["lost"]) | set(after.json()["stop"]) == {order.order_id, "another"}


async def test_a_worker_that_reports_for_another_is_refused() -> None:
    async with talking(workers=0) as talk:
        worker, _ = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        report = msgspec.structs.replace(done(worker, order), worker_id="w2")
        answer = await sent(worker, msgspec.json.encode(Turn(worker_id=worker.worker_id, reports=(report,))))

        assert answer.status_code == 403


async def test_a_worker_id_belongs_to_the_token_that_registered_it() -> None:
    async with talking(workers=0) as talk:
        one, two = await talk.as_worker("host", pools=("default",)), await talk.as_worker("host")
        announced = {"name": "host", "instance": "1", "capacity": 3, "kinds": ["http"]}
        again = await one.post("/api/workers", json=announced)
        spoken = await sent(two, msgspec.json.encode(Turn(worker_id=one.worker_id, capacity=1)))
        removed = await two.delete(f"/api/workers/{one.worker_id}")
        await two.delete(f"/api/workers/{two.worker_id}")
        listed = (await talk.get("/api/workers"))["workers"]
        left = await one.delete(f"/api/workers/{one.worker_id}")

        assert one.worker_id != two.worker_id
        assert again.json()["worker_id"] == one.worker_id, "who registers again is the same worker"
        assert [spoken.status_code, removed.status_code] == [403, 403]
        assert [(row["worker_id"], row["capacity"], row["live"]) for row in listed] == [(one.worker_id, 3, True)]
        assert left.status_code == 204
        assert (await talk.get("/api/workers"))["workers"] == []


@pytest.mark.req("SRV-08")
async def test_a_token_claims_orders_of_its_own_pools_only() -> None:
    async with talking(workers=0) as talk:
        await begun(talk)
        gpu = await talk.as_worker(pools=("gpu",))
        refused = await sent(gpu, msgspec.json.encode(Turn(worker_id=gpu.worker_id, capacity=1)))
        every = await sent(gpu, msgspec.json.encode(Turn(worker_id=gpu.worker_id, capacity=1, pools=("*",))))
        own = await turn(gpu, capacity=1, pools=("gpu",))
        announced = await gpu.post("/api/workers", json={"name": "g", "pools": ["default"]})

        assert [refused.status_code, every.status_code, announced.status_code] == [403, 403, 403]
        assert own.orders == ()


@pytest.mark.req("SRV-08")
async def test_the_number_of_orders_claimed_over_http_never_exceeds_the_pool_capacity() -> None:
    async with talking(workers=0) as talk:
        worker, _ = await begun(talk)
        for _ in range(4):
            await talk.start()
        put = await talk.client.put("/api/pools/default", json={"capacity": 2})
        answers = await asyncio.gather(*(turn(worker, capacity=5) for _ in range(3)))
        (pool,) = (await talk.get("/api/pools"))["pools"]

        assert put.status_code == 200
        assert sum(len(answer.orders) for answer in answers) == 2
        assert (pool["name"], pool["capacity"], pool["leased"]) == ("default", 2, 2)


@pytest.mark.req("RES-01", "RES-02")
async def test_large_values_are_stored_by_checksum_and_read_in_parts() -> None:
    async with talking(workers=0) as talk:
        worker, order = await holding(talk)
        of = storing(worker, order)
        body = msgspec.json.encode({"rows": ["x" * 100] * 100})
        checksum, headers = hashlib.sha256(body).hexdigest(), {"content-type": "application/json"}
        for _ in range(2):
            stored = await worker.put(f"/api/results/{checksum}", content=body, params=of, headers=headers)
            assert stored.status_code == 200, stored.text
        wrong = await worker.put(f"/api/results/{'0' * 64}", content=body, params=of, headers=headers)
        spaced = b'{"a": 1}'
        loose = await worker.put(
            f"/api/results/{hashlib.sha256(spaced).hexdigest()}", content=spaced, params=of, headers=headers
        )
        whole = await talk.client.get(f"/api/results/{checksum}")
        part = await talk.client.get(f"/api/results/{checksum}", headers={"range": "bytes=2-5"})
        tail = await talk.client.get(f"/api/results/{checksum}", headers={"range": "bytes=-3"})
        beyond = await talk.client.get(f"/api/results/{checksum}", headers={"range": "bytes=99999-"})
        known = await talk.client.get(f"/api/results/{checksum}", headers={"if-none-match": f'"{checksum}"'})

        assert stored.json()["checksum"] == checksum
        assert [wrong.status_code, loose.status_code] == [422, 422]
        assert whole.content == body
        assert (part.status_code, part.content) == (206, body[2:6])
        assert part.headers["content-range"] == f"bytes 2-5/{len(body)}"
        assert tail.content == body[-3:]
        assert beyond.status_code == 416
        assert known.status_code == 304


def child_call(worker: WorkerClient, order: Order) -> dict[str, Any]:
    """A call of `tests/child` by the task at which the order begins."""
    return {
        "execution_id": order.execution_id,
        "step_run_id": order.step_run_id,
        "order_id": order.order_id,
        "lease_epoch": order.lease_epoch,
        "worker_id": worker.worker_id,
        "task_run_id": task_run_id(order.step_run_id, order.position),
        "path": "tests/child",
    }


async def ended(worker: httpx2.AsyncClient, call: dict[str, Any]) -> httpx2.Response:
    """What became of a call, asked for again until that is known."""
    async with asyncio.timeout(60):
        while (answer := await worker.post("/api/orders/call", json=call)).json().get("status") == "running":
            pass
    return answer


CALLER = WORK.replace('kind: python, code: "result = 1"', "kind: playbook, path: tests/child")


@pytest.mark.req("WRK-05", "SRV-04")
async def test_a_worker_can_start_only_playbooks_that_its_order_calls() -> None:
    async with talking(workers=0) as talk:
        await talk.register(CHILD)
        worker, _ = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        call = child_call(worker, order)
        refused = await ended(worker, call)

        assert (refused.status_code, refused.json()["error"]["kind"]) == (403, "playbook.failed")
        assert len((await talk.get("/api/executions"))["executions"]) == 1


@pytest.mark.req("TOOL-11")
async def test_a_nested_playbook_starts_once_and_is_awaited_by_polling() -> None:
    async with talking(workers=0, call_poll_s=0.05) as talk:
        await talk.register(CHILD)
        worker, _ = await begun(talk, CALLER)
        (order,) = (await turn(worker, capacity=1)).orders
        call = child_call(worker, order)
        first = (await worker.post("/api/orders/call", json=call)).json()
        second = (await worker.post("/api/orders/call", json=call)).json()
        (inner,) = (await turn(worker, capacity=1, wait_s=30)).orders
        await turn(worker, done(worker, inner, 42))
        third = (await ended(worker, call)).json()
        late = await ended(worker, {**call, "lease_epoch": 9})

        assert first["status"] == second["status"] == "running"
        assert first["execution_id"] == second["execution_id"] == third["execution_id"] == inner.execution_id
        assert (third["status"], third["data"]) == ("completed", 42)
        assert late.json()["error"]["kind"] == "cancelled"


@pytest.mark.req("KEY-07")
async def test_a_secret_is_released_to_the_lease_holder_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_MASTER_KEY", "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2U=")
    async with talking(workers=0) as talk:
        put = await talk.client.put("/api/credentials/api_token", json={"value": "correct-horse", "type": "bearer"})
        await talk.client.put("/api/credentials/other", json={"value": "battery-staple", "type": "bearer"})
        worker, _ = await begun(
            talk,
            WORK.replace('kind: python, code: "result = 1"', "kind: http, url: 'https://example.com', auth: api_token"),
        )
        (order,) = (await turn(worker, capacity=1)).orders
        ask = {
            "execution_id": order.execution_id,
            "order_id": order.order_id,
            "lease_epoch": order.lease_epoch,
            "worker_id": worker.worker_id,
            "name": "api_token",
        }
        given = await worker.post("/api/orders/secret", json=ask)
        stale = await worker.post("/api/orders/secret", json={**ask, "lease_epoch": 7})
        told = {"name": "w2", "pools": ["default"]}
        second = (await worker.post("/api/workers", json=told)).json()["worker_id"]
        other = await worker.post("/api/orders/secret", json={**ask, "worker_id": second})
        unnamed = await worker.post("/api/orders/secret", json={**ask, "name": "other"})
        aside = await worker.post("/api/orders/secret", json={**ask, "kind": "env"})
        person = await talk.client.post("/api/orders/secret", json=ask)
        audited = [row for row in await talk.services.store.audit.newest(limit=9) if "secret" in row.action]

        assert put.status_code == 200, put.text
        assert "correct-horse" not in put.text
        assert "correct-horse" in given.text
        assert given.headers["cache-control"] == "no-store"
        for refused in (stale, other, unnamed, aside):
            assert refused.status_code == 403
            assert refused.json()["error"]["kind"] == "keychain.unresolved"
        assert "battery-staple" not in unnamed.text
        assert person.status_code == 403
        assert [row.outcome for row in audited] == ["403"] * 5, "operators see who asked for what was not theirs"


@pytest.mark.parametrize("body", [b"[]", b'{"worker_id": 1}', b'{"worker_id": "w", "reports": [1]}'])
async def test_an_invalid_turn_gets_422(body: bytes) -> None:
    async with talking(workers=0) as talk:
        assert (await sent(await talk.as_role(Role.WORKER), body)).status_code == 422


def parquet(path: Path, query: str) -> tuple[bytes, str]:
    """A file in Parquet, and its checksum."""
    duckdb.sql(query).write_parquet(str(path))
    return path.read_bytes(), hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.req("RES-01", "RES-05")
async def test_tables_are_stored_by_workers_and_read_in_pages(tmp_path: Path) -> None:
    async with talking(workers=0) as talk:
        worker, order = await holding(talk)
        viewer = await talk.as_role(Role.VIEWER)
        body, checksum = parquet(tmp_path / "t", "SELECT range AS n, 'row ' || range AS name FROM range(5000)")
        place, headers = f"/api/results/{checksum}/table", {"content-type": PARQUET}
        for _ in range(2):
            stored = await worker.put(place, content=body, headers=headers, params=storing(worker, order))
            assert stored.status_code == 200, stored.text
        fetched = await worker.get(place)
        page = (await viewer.get(f"/api/results/{checksum}/rows", params={"offset": 4998, "limit": 10})).json()
        as_value = await viewer.get(f"/api/results/{checksum}")

        assert (stored.json()["checksum"], stored.json()["media_type"]) == (checksum, PARQUET)
        assert (fetched.content, fetched.headers["content-type"]) == (body, PARQUET)
        assert fetched.headers["cache-control"] == "no-store"
        assert (page["row_count"], page["rows"]) == (
            5000,
            [{"n": 4998, "name": "row 4998"}, {"n": 4999, "name": "row 4999"}],
        )
        assert page["columns"] == [{"name": "n", "type": "BIGINT"}, {"name": "name", "type": "VARCHAR"}]
        assert as_value.status_code == 404, "it is no JSON, and nobody reads it whole"


@pytest.mark.req("RES-06")
async def test_an_invalid_table_is_not_stored(tmp_path: Path) -> None:
    async with talking(workers=0) as talk:
        worker, order = await holding(talk)
        viewer = await talk.as_role(Role.VIEWER)
        body, headers, params = b"PAR1 is how it begins", {"content-type": PARQUET}, storing(worker, order)
        checksum = hashlib.sha256(body).hexdigest()
        place = f"/api/results/{checksum}/table"
        broken = await worker.put(place, content=body, headers=headers, params=params)
        wrong = await worker.put(f"/api/results/{'0' * 64}/table", content=body, headers=headers, params=params)
        other = await worker.put(place, content=body, headers={"content-type": "application/json"}, params=params)
        denied = await viewer.put(place, content=body, headers=headers, params=params)
        missing = [await viewer.get(f"/api/results/{'0' * 64}/{what}") for what in ("table", "rows")]
        hostile = [await viewer.get(f"/api/results/..%2f..%2fx/{what}") for what in ("table", "rows")]

        assert [broken.status_code, wrong.status_code, other.status_code, denied.status_code] == [400, 422, 415, 403]
        assert [one.status_code for one in (*missing, *hostile)] == [404] * 4


@pytest.mark.req("KEY-06")
async def test_a_table_with_a_secret_of_another_worker_is_stored_masked(tmp_path: Path) -> None:
    secret = "correct horse battery staple"
    async with talking(workers=0) as talk:
        worker, order = await holding(talk)
        mask = await talk.services.control.for_workers.mask(order.execution_id)
        mask.learn([secret])
        body, checksum = parquet(tmp_path / "t", f"SELECT 'a {secret} b' AS s, 7 AS n")
        stored = await worker.put(
            f"/api/results/{checksum}/table",
            content=body,
            headers={"content-type": PARQUET},
            params=storing(worker, order),
        )
        kept = stored.json()["checksum"]
        page = (await talk.client.get(f"/api/results/{kept}/rows")).json()

        assert kept != checksum
        assert page["rows"] == [{"s": "a *** b", "n": 7}]


@pytest.mark.req("SRV-08")
async def test_a_drained_worker_finishes_its_orders_and_receives_no_more() -> None:
    async with talking(workers=0) as talk:
        worker, _ = await begun(talk)
        [order] = (await turn(worker, capacity=1)).orders
        await talk.start()
        drained = (await talk.client.post(f"/api/workers/{worker.worker_id}/drain")).json()

        assert drained["drained_at"] is not None
        answer = await turn(worker, done(worker, order), capacity=1)  # its report is taken, its next step waits
        assert (answer.verdicts, answer.orders) == (("accepted",), ())
        assert (await turn(worker, capacity=5, wait_s=0.3)).orders == ()
        [told] = (await talk.get("/api/workers"))["workers"]
        assert told["drained_by"] == drained["drained_by"] != ""

        other = await talk.as_worker("w2")
        assert len((await turn(other, capacity=1)).orders) == 1  # others take what it is not given
        resumed = (await talk.client.post(f"/api/workers/{worker.worker_id}/resume")).json()
        assert resumed["drained_at"] is None
        await talk.start()
        assert len((await turn(worker, capacity=1)).orders) == 1
        await talk.post("/api/workers/nobody/drain", status=404)


async def test_pools_show_the_number_of_waiting_orders() -> None:
    async with talking(workers=0) as talk:
        worker, _ = await begun(talk)
        await talk.start()
        await talk.services.caches.queue_depths.count_waiting()
        await turn(worker, capacity=2)
        (pool,) = (await talk.get("/api/pools"))["pools"]

        assert pool["depths"][-2:] == [2, 0]
