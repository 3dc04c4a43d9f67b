"""Results in a NATS broker: what is its own beside the contract (RES-01, RES-02)."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, ToolError
from noetl.control.assembly import assemble
from noetl.control.commit.sharing import SharedExecutions
from noetl.events.orders import ReportResult, Turn
from noetl.store.memory import MemoryStore
from noetl.store.open_store import open_results
from noetl.store.results import nats_objects
from noetl.store.results.nats_objects import NatsResults, OvertakenError
from noetl.store.wakeups import MemoryWakeups
from tests.results.large_results import LARGE, done, start
from tests.servers.nats import Server, server
from tests.servers.ports import free_port


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may be slow to answer; nothing here waits so long where it is right."""
    monkeypatch.setattr(nats_objects, "_PATIENCE_S", 60.0)


@pytest.fixture
def results() -> Iterator[NatsResults]:
    made = NatsResults(f"{server().url}/b{uuid4().hex}")
    yield made
    made.close()


@asynccontextmanager
async def broker(results: NatsResults) -> AsyncIterator[JetStreamContext]:
    """Somebody who tampers with it."""
    client = Client()
    await client.connect(server().url)
    try:
        yield client.jetstream()
    finally:
        await client.close()


def stream_of(results: NatsResults) -> str:
    return f"OBJ_{results._name}"


def test_the_results_store_is_chosen_by_url_and_shown_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_RESULTS", "nats://me:secret@127.0.0.1:1/own")

    results = open_results("store.db")

    assert isinstance(results, NatsResults)
    with pytest.raises(BackendError, match=r"the result store nats://127\.0\.0\.1:1/own failed") as failed:
        results.put([1])
    assert "secret" not in str(failed.value)
    assert "\n" not in str(failed.value)
    results.close()


@pytest.mark.parametrize("url", ["nats://", "nats://h/a.b", "nats://h/a/b", "nats://h/a?x=1", "nats://h/a?replicas=b"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(BackendError, match="results cannot be kept at"):
        NatsResults(url)


def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("nats")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "noetl.store.results.nats_objects")

    with pytest.raises(BackendError, match=r'pip install "noetl-engine\[nats\]"'):
        open_results("store.db", "nats://h/b")


@pytest.mark.req("RES-02")
async def test_changed_content_is_refused(results: NatsResults) -> None:
    reference = await asyncio.to_thread(results.put, [1])
    async with broker(results) as stream:
        objects = await stream.object_store(results._name)
        await objects.put(reference.key, b"[2]")

        with pytest.raises(ToolError) as refused:
            await results.fetch(reference.checksum)

    assert refused.value.kind == "result.corrupt"


@pytest.mark.req("RES-06")
async def test_an_object_without_its_chunks_is_missing(results: NatsResults, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = await asyncio.to_thread(results.put, [1])
    monkeypatch.setattr(nats_objects, "_PATIENCE_S", 0.3)
    async with broker(results) as stream:
        await stream.purge_stream(stream_of(results), subject=f"$O.{results._name}.C.>")

    with pytest.raises(ToolError) as refused:
        await results.fetch(reference.checksum)

    assert refused.value.kind == "result.missing"


async def test_other_clients_can_read_our_objects(results: NatsResults) -> None:
    value = "x" * 300_000
    reference = await asyncio.to_thread(results.put, value)
    async with broker(results) as stream:
        objects = await stream.object_store(results._name)

        assert (await objects.get(reference.key)).data == msgspec.json.encode(value)


async def test_a_deleted_bucket_is_created_again(results: NatsResults) -> None:
    await results.send(b"[1]")
    async with broker(results) as stream:
        await stream.delete_stream(stream_of(results))

    with pytest.raises(ToolError, match="gone"):
        await results.fetch(hashlib.sha256(b"[1]").hexdigest())
    await results.send(b"[1]")

    assert await results.fetch(hashlib.sha256(b"[1]").hexdigest()) == b"[1]"


@pytest.mark.req("RES-01")
async def test_a_full_broker_reports_it_and_stores_no_partial_object(results: NatsResults) -> None:
    await results.send(b"[1]")
    async with broker(results) as stream:
        config = (await stream.stream_info(stream_of(results))).config
        config.max_bytes = 300_000
        await stream.update_stream(config)

        with pytest.raises(BackendError, match="maximum bytes"):
            await results.send(msgspec.json.encode("x" * 400_000))

        assert (await stream.stream_info(stream_of(results))).state.messages == 2, "the small one"
    assert await results.fetch(hashlib.sha256(b"[1]").hexdigest()) == b"[1]"


@pytest.mark.req("EVT-01")
async def test_a_dropped_result_leaves_nothing_behind(results: NatsResults) -> None:
    reference = await asyncio.to_thread(results.put, "x" * 300_000)

    assert await results.dropped(reference.checksum, before=time.time() + 60)

    async with broker(results) as stream:
        assert (await stream.stream_info(stream_of(results))).state.messages == 0


async def test_a_result_stored_again_during_collection_stays(
    results: NatsResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever collects has seen an old one; it is put again before it is gone."""
    reference = await asyncio.to_thread(results.put, [1])
    monkeypatch.setattr(nats_objects, "OLD_S", -1.0)  # every one is old
    bucket = await results._beside.call_async(results._open_bucket())
    info, seen = await results._beside.call_async(bucket.entry(reference.key))
    assert info is not None
    await results.send(b"[1]")

    with pytest.raises(OvertakenError):
        await results._beside.call_async(bucket.delete(info, over=seen))

    assert await results.fetch(reference.checksum) == b"[1]"


async def test_concurrent_writers_of_one_object_store_it_once(results: NatsResults) -> None:
    body = msgspec.json.encode("x" * 200_000)
    others = NatsResults(f"{server().url}/{results._name}")

    await asyncio.gather(*(one.send(body) for one in (results, others) * 5))

    assert await results.fetch(hashlib.sha256(body).hexdigest()) == body
    async with broker(results) as stream:
        assert (await stream.stream_info(stream_of(results))).state.messages == 3, "two parts and an entry"
    others.close()


@pytest.mark.req("RES-01")
async def test_a_broker_restart_only_delays_results(tmp_path: Path) -> None:
    """While it is away, who needs it is told so and nobody else; then everything goes on with what it had."""
    port = free_port()
    where = ("-p", str(port), "-sd", str(tmp_path))
    first = Server(*where)
    store, results = MemoryStore(), NatsResults(f"nats://127.0.0.1:{port}/b")
    control = assemble(store, results, MemoryWakeups(), ManualClock(), sharing=SharedExecutions())
    await start(control, "x1", large=LARGE)
    await start(control, "x2")
    orders = {
        one.execution_id: one for one in (await control.for_workers.turn(Turn(worker_id="w1", capacity=5))).orders
    }
    first.stop()
    large, small = (Turn(worker_id="w1", reports=(done(orders[x], v),)) for x, v in (("x1", LARGE[1:]), ("x2", 1)))

    with pytest.raises(BackendError, match=r"the result store nats://127\.0\.0\.1"):
        await control.for_workers.turn(large)
    assert (await control.for_workers.turn(small)).verdicts == (ReportResult.ACCEPTED,)
    second = Server(*where)
    assert (await control.for_workers.turn(large)).verdicts == (ReportResult.ACCEPTED,)

    other = assemble(store, results, MemoryWakeups(), ManualClock(), sharing=SharedExecutions())
    assert (await other.executions.execution("x1")).execution.origin.workload["large"] == LARGE
    await control.close()
    await other.close()
    await asyncio.to_thread(results.close)
    second.stop()
