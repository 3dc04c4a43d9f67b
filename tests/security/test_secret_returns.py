"""Attack: a secret that one worker was given comes back through another one, a child, or after a restart."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from noetl.control.secrets.execution_secrets import KIND
from noetl.events.orders import Order, Position
from noetl.events.outcomes import Reference
from noetl.operations.embedded import driving
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.worker.remote_values import RemoteValues
from tests.engine_script import playbook
from tests.server.output_batches import chunk, tell, texts
from tests.server.talking import Talk, WorkerClient, talking
from tests.server.worker_turns import done, storing, turn

SECRET = "correct-horse-battery"
TWO_STEPS = """
keychain: [{name: api, kind: env, var: ORDERS_API_KEY}]
workflow:
  - step: start
    tool: [{name: work, kind: python, args: {key: "{{ keychain.api }}"}, code: "result = 1"}]
    next: {arcs: [{step: end}]}
  - step: end
    tool: [{name: work, kind: python, code: "result = 2"}]
"""


@pytest.fixture(autouse=True, params=["a master key", "no master key"])
def surroundings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORDERS_API_KEY", SECRET)
    if request.param == "a master key":
        monkeypatch.setenv("NOETL_MASTER_KEY", "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2U=")


async def read_secret(worker: WorkerClient, order: Order) -> None:
    asked = {"execution_id": order.execution_id, "order_id": order.order_id, "lease_epoch": order.lease_epoch}
    answer = await worker.post("/api/orders/secret", json={**asked, "worker_id": worker.worker_id, "name": "api"})
    assert answer.json()["fields"]["value"] == SECRET, answer.text


async def first_step(talk: Talk) -> str:
    """One worker reads the secret and ends its step; the order of the next one, which names no secret, is ready."""
    worker = await talk.as_worker("first")
    await talk.register(TWO_STEPS)
    execution_id = str((await talk.start())["execution_id"])
    (order,) = (await turn(worker, capacity=1)).orders
    await read_secret(worker, order)
    await turn(worker, done(worker, order))
    return execution_id


async def second_order(talk: Talk) -> tuple[WorkerClient, Order]:
    """Another worker, which has the order of the second step."""
    worker = await talk.as_worker("second")
    (order,) = (await turn(worker, capacity=1)).orders
    return worker, order


async def recorded(talk: Talk, execution_id: str) -> str:
    page = await talk.get(f"/api/executions/{execution_id}/events?limit=500")
    return json.dumps([page, await talk.get(f"/api/executions/{execution_id}")])


@pytest.mark.req("KEY-06")
async def test_a_secret_returned_by_another_worker_is_masked() -> None:
    async with talking(workers=0) as talk:
        execution_id = await first_step(talk)
        worker, order = await second_order(talk)
        await turn(worker, done(worker, order, {"echo": f"it was {SECRET}"}))
        told = await recorded(talk, execution_id)

        assert SECRET not in told
        assert "it was ***" in told


@pytest.mark.req("KEY-06")
async def test_another_server_and_a_restarted_server_mask_a_secret() -> None:
    store, results = MemoryStore(), MemoryResults()
    async with talking(workers=0, store=store, results=results) as talk:
        execution_id = await first_step(talk)
    async with talking(workers=0, store=store, results=results) as talk:
        worker, order = await second_order(talk)
        await turn(worker, done(worker, order, {"echo": SECRET}))
        told = await recorded(talk, execution_id)

        assert "step.done" in told
        assert SECRET not in told


TWO_AT_ONCE = """
keychain: [{name: api, kind: env, var: ORDERS_API_KEY}]
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: show}, {step: read}]}
  - step: show
    tool: [{name: work, kind: python, code: "result = 1"}]
  - step: read
    tool: [{name: work, kind: python, args: {key: "{{ keychain.api }}"}, code: "result = 1"}]
"""


@pytest.mark.req("KEY-06")
async def test_a_secret_released_by_another_server_is_masked_in_live_output() -> None:
    store, results = MemoryStore(), MemoryResults()
    async with (
        talking(workers=0, store=store, results=results) as here,
        talking(workers=0, store=store, results=results) as there,
    ):
        shows, reads = await here.as_worker("shows"), await there.as_worker("reads")
        await here.register(TWO_AT_ONCE)
        execution_id = str((await here.start())["execution_id"])
        (shown,) = (await turn(shows, capacity=1)).orders
        await tell(shows, chunk(shown, "before"))
        (read,) = (await turn(reads, capacity=1, wait_s=10)).orders
        await read_secret(reads, read)
        await tell(shows, chunk(shown, f"it was {SECRET}"))

        assert (shown.step, read.step) == ("show", "read")
        assert await texts(here, execution_id) == ["before", "it was ***"]


@pytest.mark.req("KEY-06")
async def test_the_store_contains_no_plaintext_secret() -> None:
    async with talking(workers=0) as talk:
        await first_step(talk)
        kept = await talk.services.store.key_values.list(KIND)

        assert len(kept) == 1
        assert SECRET.encode() not in kept[0].body


@pytest.mark.req("KEY-06", "RES-01")
async def test_a_large_value_with_a_secret_is_stored_masked_and_its_new_reference_returned() -> None:
    async with talking(workers=0) as talk:
        await first_step(talk)
        worker, order = await second_order(talk)
        body = msgspec.json.encode({"echo": SECRET, "rest": "x" * 100})
        checksum = hashlib.sha256(body).hexdigest()
        answer = await worker.put(
            f"/api/results/{checksum}",
            content=body,
            params=storing(worker, order),
            headers={"content-type": "application/json"},
        )
        stored = msgspec.json.decode(answer.content, type=Reference)
        found = await talk.get(f"/api/results/{stored.checksum}")

        assert stored.checksum != checksum
        assert found["echo"] == "***"
        await talk.get(f"/api/results/{checksum}", status=404)


@pytest.mark.req("KEY-06", "RES-01")
@pytest.mark.parametrize(("named", "status"), [({}, 422), ({"execution_id": ""}, 422), ({"execution_id": "x1"}, 404)])
async def test_a_large_value_without_its_execution_is_not_stored(named: dict[str, str], status: int) -> None:
    async with talking(workers=0) as talk:
        await first_step(talk)
        worker, _ = await second_order(talk)
        body = msgspec.json.encode({"echo": SECRET, "rest": "x" * 100})
        checksum = hashlib.sha256(body).hexdigest()
        json = {"content-type": "application/json"}
        params = {"worker_id": worker.worker_id, **named}
        answer = await worker.put(f"/api/results/{checksum}", content=body, params=params, headers=json)

        assert answer.status_code == status, answer.text
        await talk.get(f"/api/results/{checksum}", status=404)


@pytest.mark.req("KEY-06", "RES-01")
async def test_a_worker_reports_the_reference_that_the_server_returned() -> None:
    masked = Reference(store="files", key="k2", checksum="2" * 64, size=7)

    class Line:
        async def ask(self, *_: Any, **__: Any) -> Any:
            return httpx2.Response(200, content=msgspec.json.encode(masked))

    values = RemoteValues(Line(), pytest.fail, "w1")  # type: ignore[arg-type]  # a stand-in
    reference = values.keep({"echo": SECRET}, "x1")
    order = Order(
        order_id="o",
        execution_id="x1",
        step_run_id="r",
        step="s",
        net_hash="h",
        lease_epoch=1,
        trace_id="t",
        args={},
        workload={},
        ctx={},
        token={},
        results={},
        position=Position(task="work"),
    )
    report = done(WorkerClient(), order, {"_ref": msgspec.to_builtins(reference)})
    await values.settled([report])
    told = msgspec.json.encode(values.as_stored(report)).decode()

    assert masked.checksum in told
    assert reference.checksum not in told


PARENT = """
keychain: [{name: api, kind: env, var: ORDERS_API_KEY}]
workflow:
  - step: start
    tool: [{name: write, kind: python, args: {key: "{{ keychain.api }}"}, code: "open('FILE', 'w').write(key)"}]
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: [{name: ask, kind: playbook, path: tests/child}]
"""
READS_FILE = """
workflow:
  - step: start
    tool: [{name: read, kind: python, code: "result = {'said': open('FILE').read(), 'much': 'x' * SIZE}"}]
"""
WAITS = """
keychain: [{name: api, kind: env, var: ORDERS_API_KEY}]
workflow:
  - step: start
    tool: [{name: write, kind: python, args: {key: "{{ keychain.api }}"}, code: "open('FILE', 'w').write(key)"}]
    next: {arcs: [{step: hold}]}
  - step: hold
    signal: {name: go}
    next: {arcs: [{step: read}]}
  - step: read
    tool: [{name: read, kind: python, code: "result = {'said': open('FILE').read(), 'much': 'x' * SIZE}"}]
"""


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("size", [1, 300_000])
async def test_a_secret_returned_by_a_child_is_masked_in_the_parent(tmp_path: Path, size: int) -> None:
    place, db = str(tmp_path / "left.txt"), tmp_path / "store" / "s.db"
    db.parent.mkdir()

    def told(text: str) -> str:
        return playbook(text.replace("FILE", place).replace("SIZE", str(size)))

    async with driving(db) as driver:
        await driver.register(told(READS_FILE).replace("tests/test", "tests/child"))
        result = await driver.run(told(PARENT))

    assert result.ok, result.error
    assert result.result["said"] == "***"
    assert SECRET.encode() not in all_bytes(db.parent)


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("size", [1, 300_000])
async def test_a_secret_read_before_an_interruption_is_masked_after_it(tmp_path: Path, size: int) -> None:
    place, db = str(tmp_path / "left.txt"), tmp_path / "store" / "s.db"
    db.parent.mkdir()
    text = playbook(WAITS.replace("FILE", place).replace("SIZE", str(size)))
    async with driving(db) as driver:
        execution_id = await driver.start(text)
        while not driver._executions.may_be_moved_by_others:
            await asyncio.sleep(0.01)
    async with driving(db) as driver:
        await driver.take_up(execution_id)
        await driver.deliveries.send_signal("go", execution_id=execution_id)
        result = await driver.result(execution_id)

    assert result.result["said"] == "***"
    assert SECRET.encode() not in all_bytes(db.parent)
