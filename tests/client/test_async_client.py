"""Both clients against a real server: the whole walk, resumed streams, repeated requests, plain errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import noetl
from noetl.client import ApiError, AsyncClient, Client, UnreachableError
from noetl.client.administration_requests import make_token
from noetl.client.api_request import Reader, StreamMessage, event_of
from noetl.client.history import RemoteRecords, ServerResults
from noetl.events.envelope import readable
from noetl.events.steps import StepDone
from noetl.server.server_process import Served
from noetl.store.contract import EventFilter
from tests.client.serving_here import served
from tests.narrowing import payloads, present

PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: adds, path: tests/adds }
workload: { n: 1 }
workflow:
  - step: start
    tool:
      - name: add
        kind: python
        args: { n: "{{ workload.n }}" }
        code: "print('adding'); result = n + 1"
        spec: { policy: { rules: [{ else: { then: { do: continue, set_ctx: { sum: "{{ outcome.result }}" } } } }] } }
"""
BROKEN = PLAYBOOK.replace("step: start", "stepp: start")
SLOW = PLAYBOOK.replace("tests/adds", "tests/slow").replace("result = n + 1", "import time; time.sleep(n); result = n")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, server.first_token) as client:
        yield client


async def test_the_async_client_covers_the_life_of_an_execution(client: AsyncClient) -> None:
    registered = await client.register(PLAYBOOK)
    again = await client.register(PLAYBOOK)
    started = await client.start("tests/adds", {"n": 41}, wait=True)
    events = [event async for event in client.events(started.execution_id)]
    lines = [line async for line in client.logs(started.execution_id)]

    assert (registered.version, registered.created, again.version, again.created) == (1, True, 1, False)
    assert (started.status, started.result) == ("completed", 42)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [line.stdout for line in lines] == ["adding\n"]
    assert await client.ctx(started.execution_id) == {"sum": 42}
    assert (await client.result(started.execution_id, step="start")).result == 42
    assert [one.execution_id for one in (await client.list(path="tests/*")).executions] == [started.execution_id]
    assert [one.path for one in await client.playbooks()] == ["tests/adds"]
    assert await client.source("tests/adds") == PLAYBOOK
    assert (await client.rerun(started.execution_id)).path == "tests/adds"
    assert (await client.who_am_i()).role == "admin"
    assert [one.live for one in await client.workers()] == [True]
    assert (await client.set_pool("gpu", capacity=2)).capacity == 2
    assert "gpu" in [one.name for one in await client.pools()]


async def test_the_blocking_client_returns_the_same_results(server: Served) -> None:
    def talk() -> dict[str, Any]:
        with noetl.Client(server.url, server.first_token) as client:
            client.register(PLAYBOOK)
            ended = client.run("tests/adds", {"n": 1})
            followed = list(client.events(ended.execution_id, follow=True))
            return {
                "result": ended.result,
                "ok": ended.ok,
                "events": followed == list(client.events(ended.execution_id)),
                "lines": len(list(client.logs(ended.execution_id))),
            }

    assert await asyncio.to_thread(talk) == {"result": 2, "ok": True, "events": True, "lines": 1}


async def test_the_client_pauses_resumes_and_cancels_an_execution(client: AsyncClient) -> None:
    await client.register(SLOW)
    started = await client.start("tests/slow", {"n": 600})

    assert (await client.pause(started.execution_id, "lunch")).changed
    assert not (await client.pause(started.execution_id)).changed
    assert (await client.resume(started.execution_id)).changed
    assert (await client.cancel(started.execution_id)).changed
    ended = await client.wait(started.execution_id, timeout=500)
    assert ended is not None
    assert ended.status == "cancelled"


async def test_a_wait_that_times_out_before_the_execution_ends_returns_none(client: AsyncClient) -> None:
    await client.register(SLOW)
    started = await client.start("tests/slow", {"n": 600}, wait=0.05)

    assert started.status == "running"
    assert await client.wait(started.execution_id, timeout=0.05) is None
    await client.cancel(started.execution_id)


async def test_the_same_idempotency_key_starts_one_execution(client: AsyncClient) -> None:
    await client.register(PLAYBOOK)
    first = await client.start("tests/adds", {"n": 1}, key="order-7")
    second = await client.start("tests/adds", {"n": 1}, key="order-7")
    third = await client.start("tests/adds", {"n": 1})

    assert first.execution_id == second.execution_id != third.execution_id


async def test_a_playbook_with_errors_is_refused_with_its_diagnostics(client: AsyncClient) -> None:
    with pytest.raises(ApiError) as refused:
        await client.register(BROKEN)

    assert refused.value.status == 422
    assert refused.value.diagnostics[0]["line"] > 0


@pytest.mark.parametrize(("path", "status"), [("tests/nothing", 404)])
async def test_a_missing_resource_raises_an_error_with_its_status(client: AsyncClient, path: str, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        await client.start(path)

    assert refused.value.status == status


async def test_an_unreachable_server_raises_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.client.api_request.retry_delay_s", lambda *_: 0.0)
    async with AsyncClient("http://127.0.0.1:9") as client:
        with pytest.raises(UnreachableError, match="does not answer"):
            await client.list()


async def test_a_human_task_is_found_claimed_and_completed(server: Served, client: AsyncClient) -> None:
    text = (Path(__file__).parents[1] / "fixtures" / "F-R-HUMAN.yaml").read_text()
    version = await client.register(text)
    started = await client.start(version.path)
    async with asyncio.timeout(60):
        while not (tasks := await client.tasks(execution_id=started.execution_id)):
            await asyncio.sleep(0.02)
    wanted = {"subject": "fay", "role": "operator", "human_roles": ["finance_manager"]}
    token = (await client.send(make_token(wanted))).token
    async with AsyncClient(server.url, token) as fay:
        with pytest.raises(ApiError) as refused:
            await fay.complete_task(tasks[0].task_id, {"decision": "perhaps"})
        claimed = await fay.claim_task(tasks[0].task_id)
        done = await fay.complete_task(tasks[0].task_id, {"decision": "approve"}, version=claimed.version)
        seen = await fay.task(done.task_id)

    assert refused.value.status in (409, 422)
    assert (claimed.state, done.state, seen.state) == ("claimed", "completed", "completed")


async def test_messages_and_signals_without_a_waiting_execution_are_accepted(client: AsyncClient) -> None:
    first = await client.send_message("paid", {"order": 7}, {"sum": 3}, message_id="m1", ttl=60)
    again = await client.send_message("paid", {"order": 7}, {"sum": 3}, message_id="m1", ttl=60)

    assert first.get("message_id", "m1") == again.get("message_id", "m1") == "m1"
    assert await client.send_signal("stop") == []


class Faulty(httpx2.AsyncHTTPTransport):
    """Cuts a stream after some bytes, and refuses the first requests for a while."""

    def __init__(self, *, busy: int = 0, cut_after: int | None = None) -> None:
        super().__init__()
        self.busy, self.cut_after, self.seen = busy, cut_after, list[httpx2.Request]()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if self.busy:
            self.busy -= 1
            return httpx2.Response(429, headers={"Retry-After": "0"}, request=request)
        response = await super().handle_async_request(request)
        if self.cut_after is not None and "stream" in request.url.path:
            response.stream = _Cut(response.stream, self.cut_after)
            self.cut_after = None
        return response


class _Cut(httpx2.AsyncByteStream):
    def __init__(self, whole: Any, after: int) -> None:
        self._whole, self._left = whole, after

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._whole:
            yield part[: self._left]
            self._left -= len(part)
            if self._left <= 0:
                raise httpx2.ReadError("cut")

    async def aclose(self) -> None:
        await self._whole.aclose()


async def test_an_interrupted_stream_resumes_at_its_position(server: Served) -> None:
    cutting = Faulty(cut_after=6000)
    async with AsyncClient(server.url, server.first_token, transport=cutting) as client:
        await client.register(PLAYBOOK)
        started = await client.start("tests/adds", {"n": 1})
        seqs = [event.seq async for event in client.events(started.execution_id, follow=True)]

    streams = [request for request in cutting.seen if request.url.path.endswith("/stream")]
    assert len(streams) == 2
    assert streams[1].headers["Last-Event-ID"] != "0"
    assert seqs == list(range(1, len(seqs) + 1))


async def test_a_request_to_a_busy_server_is_retried(server: Served) -> None:
    busy = Faulty(busy=3)
    async with AsyncClient(server.url, server.first_token, transport=busy) as client:
        assert (await client.who_am_i()).role == "admin"

    assert len(busy.seen) == 4


async def test_records_from_a_server_read_like_records_from_a_store(server: Served) -> None:
    large = PLAYBOOK.replace("result = n + 1", "result = 'x' * 100000").replace("set_ctx: { sum: ", "set_ctx: { big: ")
    async with AsyncClient(server.url, server.first_token) as client:
        await client.register(large)
        ended = await client.run("tests/adds")
        records = RemoteRecords(client)
        newest = await records.events(
            ended.execution_id, only=EventFilter(types=("step.done", "playbook.processed"), limit=1, newest=True)
        )
        row = await records.execution(ended.execution_id)
        stored = await server.services.store.events(ended.execution_id)

        assert [event.event_type for event in newest] == ["playbook.processed"]
        assert row is not None
        assert (row.status, row.last_seq, row.path) == ("completed", len(stored), "tests/adds")
        assert await records.events(ended.execution_id) == [event_of(readable(event)) for event in stored]
        assert await records.execution("nobody") is None
        assert await records.begin_with(ended.execution_id[:8]) == [ended.execution_id]
        assert await records.tally() == {"completed": 1}
        assert await records.positions([ended.execution_id]) == {ended.execution_id: len(stored)}
        reference = present(payloads(stored, StepDone)[0].result.ref)

    def loaded() -> Any:
        with Client(server.url, server.first_token) as client:
            return ServerResults(client).load(reference)

    assert await asyncio.to_thread(loaded) in ("x" * 100_000, {"data": "x" * 100_000})


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        (["data: a", ""], [StreamMessage("message", "a", None)]),
        (["id: 7", "event: end", "data: {}", ""], [StreamMessage("end", "{}", "7")]),
        ([": still here", ""], []),
        (["data: a", "data: b", ""], [StreamMessage("message", "a\nb", None)]),
        (
            ["id: 1", "data: a", "", "data: b", ""],
            [StreamMessage("message", "a", "1"), StreamMessage("message", "b", "1")],
        ),
    ],
)
def test_stream_lines_are_parsed_into_messages(lines: list[str], messages: list[StreamMessage]) -> None:
    reader = Reader()

    assert [message for line in lines for message in reader.take(line)] == messages
