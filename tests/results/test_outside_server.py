"""A whole server whose results lie outside: all that stores or reads a large value, and what nobody waits for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import msgspec
import pytest

from noetl.store.contract import ResultStore
from noetl.store.results import nats_objects
from noetl.store.results.nats_objects import NatsResults
from noetl.store.results.remote import ObjectResults
from noetl.worker.identity import own_worker_id
from tests.playbook_runs import Scripted
from tests.server.talking import Talk, talking
from tests.server.worker_turns import holding, storing
from tests.servers import nats
from tests.servers.s3 import ObjectServer

LARGE = "y" * 300_000
FLOW = """
workload: {given: ""}
workflow:
  - step: start
    tool:
      - name: big
        kind: python
        code: x
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {kept: "{{ outcome.result }}"}}}}]}}
    next: {arcs: [{step: many, args: {words: "{{ start.data }}"}, when: "{{ start.data | length == 300000 }}"}]}
  - step: many
    loop: {in: "{{ range(5) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 5}}
    tool: [{name: part, kind: python, code: x}]
    next: {arcs: [{step: last, when: "{{ many.data | length == 5 and many.data[4] | length == 300000 }}"}]}
  - step: last
    tool: [{name: end, kind: python, code: x, args: {seen: "{{ start.data | length }}"}}]
"""
SMALL = """
workflow:
  - {step: start, tool: [{name: small, kind: python, code: x}]}
"""


@pytest.fixture
def objects() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        yield server


@asynccontextmanager
async def serving(results: ResultStore) -> AsyncIterator[Talk]:
    tools = {"python": Scripted(big=LARGE, part=LARGE, end=LARGE[1:], small=1)}
    try:
        async with talking(results=results, tools=tools) as talk:
            yield talk
            await talk.services.control.executions.close()
    finally:
        await asyncio.to_thread(results.close)


@pytest.mark.req("RES-01", "RES-03", "RES-06")
@pytest.mark.parametrize("place", ["objects", "nats"])
async def test_a_run_with_large_values_behaves_like_any_other(
    place: str, objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: ResultStore
    if place == "objects":
        results = ObjectResults(objects.named(monkeypatch))
    else:
        monkeypatch.setattr(nats_objects, "_PATIENCE_S", 60.0)  # a busy machine may stand still for some seconds
        results = NatsResults(f"{nats.server().url}/s{uuid4().hex}")
    async with serving(results) as talk:
        path = (await talk.register(FLOW))["path"]
        told = await talk.start(path, {"given": LARGE}, wait=60)

        assert told["status"] == "completed", told
        assert told["result"] == LARGE[1:]
        url = f"/api/executions/{told['execution_id']}"
        assert (await talk.get(f"{url}/ctx"))["kept"] == LARGE
        assert (await talk.get(f"{url}/result?step=many"))["result"] == [LARGE] * 5
        assert (await talk.get(url))["payload"] == {"given": LARGE}
        assert (await talk.get(f"{url}/state?at=9"))["workload"] == {"given": LARGE}
        asked = {"execution_id": told["execution_id"], "template": "{{ start.data | length }}"}
        assert (await talk.post("/api/render", asked))["value"] == len(LARGE)


@pytest.mark.req("RES-01")
async def test_a_slow_results_store_does_not_delay_other_requests(
    objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = msgspec.json.encode(LARGE)
    stored = f"/api/results/{hashlib.sha256(body).hexdigest()}"
    async with serving(ObjectResults(objects.named(monkeypatch))) as talk:
        drains = talk.services.control.pools.drains
        await drains.begin(own_worker_id(), by="test")
        worker, order = await holding(talk, SMALL)
        await drains.end(own_worker_id())
        small = {"playbook_id": (await talk.register(SMALL))["catalog_id"], "wait": 60}
        large = (await talk.register(FLOW))["path"]
        objects.hold()
        json = {"content-type": "application/json"}
        starting = asyncio.ensure_future(talk.start(large, {"given": LARGE}, wait=60))
        putting = asyncio.ensure_future(worker.put(stored, content=body, params=storing(worker, order), headers=json))
        getting = asyncio.ensure_future(talk.client.get(stored))
        assert await asyncio.to_thread(objects.came.wait, 60)

        for _ in range(3):
            assert (await talk.post("/api/executions", small, status=201))["status"] == "completed"

        assert [one.done() for one in (starting, putting, getting)] == [False] * 3
        objects.let_go()
        started, put, _ = await asyncio.gather(starting, putting, getting)
        assert put.status_code == 200, put.text
        assert put.json()["store"] == "objects"
        assert started["status"] == "completed"
        assert (await talk.client.get(stored)).content == body
