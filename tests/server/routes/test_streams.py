"""Live streams: whole, resumable, and ended when there is nothing more to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import pytest

from noetl.server.event_hub import Hub
from noetl.server.routes import streams
from noetl.server.routes.streams import EventStream
from noetl.store.contract import MovedExecutions
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from tests.contracts.commits import commit, event
from tests.server.event_streams import Heard, streaming
from tests.server.held_executions import HELD
from tests.server.live import live
from tests.server.talking import talking


async def test_a_stream_sends_every_event_and_ends_with_the_execution() -> None:
    async with talking() as talk:
        execution_id = await talk.ran()
        everything = (await talk.get(f"/api/executions/{execution_id}/events"))["events"]
        async with streaming(talk.client, f"/api/executions/{execution_id}/stream") as stream:
            found = [one async for one in stream if one.name != "comment"]

        assert [one.data for one in found[:-1]] == everything
        assert [one.at for one in found[:-1]] == [str(one["seq"]) for one in everything]
        assert (found[-1].name, found[-1].data) == ("end", {"status": "completed"})


async def test_an_interrupted_stream_resumes_at_its_last_event() -> None:
    async with live(workers=0) as (_, client, talk):
        await talk.register(HELD)
        execution_id = (await talk.start())["execution_id"]
        url, first = f"/api/executions/{execution_id}/stream", []
        async with streaming(client, url) as stream:
            async for one in stream:
                if one.name == "message":
                    first.append(one)
                if len(first) == 4:
                    break
        await talk.post(f"/api/executions/{execution_id}/cancel")
        async with streaming(client, url, headers={"last-event-id": first[-1].at or ""}) as stream:
            rest = [one async for one in stream if one.name == "message"]
        seqs = [one.data["seq"] for one in (*first, *rest)]
        async with asyncio.timeout(60):
            while "noetl_streams 0.0" not in (await client.get("/metrics")).text:
                await asyncio.sleep(0.02)  # who reads no longer is forgotten a moment later

        assert seqs == list(range(1, len(seqs) + 1))
        assert rest[-1].data["name"] == "playbook.processed"


async def test_a_stream_sends_events_recorded_by_another_server() -> None:
    """Two servers on one store: the stream is read from one, the execution is steered by the other."""
    store, results = MemoryStore(), MemoryResults()
    async with (
        talking(workers=0, store=store, results=results) as one,
        talking(workers=0, store=store, results=results) as two,
    ):
        await one.register(HELD)
        execution_id = (await one.start())["execution_id"]

        async def read() -> list[str]:
            async with streaming(one.client, f"/api/executions/{execution_id}/stream") as stream:
                return [part.data["name"] async for part in stream if part.name == "message"]

        reading = asyncio.create_task(read())
        async with asyncio.timeout(60):
            while "noetl_streams 1.0" not in (await one.client.get("/metrics")).text:
                await asyncio.sleep(0.01)
        await two.post(f"/api/executions/{execution_id}/cancel")
        async with asyncio.timeout(60):
            names = await reading

        assert names[-1] == "playbook.processed"
        assert "playbook.cancelled" in names


async def test_the_system_stream_sends_row_changes_and_can_be_resumed() -> None:
    async with live(workers=2) as (_, client, talk):
        await talk.register()
        rows: list[Heard] = []
        async with streaming(client, "/api/stream") as stream:
            started = asyncio.create_task(talk.start(wait=60))
            async for one in stream:
                if one.name == "message":
                    rows.append(one)
                    if one.data["status"] == "completed":
                        break
            first = (await started)["execution_id"]
        second = (await talk.start(wait=60))["execution_id"]
        async with streaming(client, "/api/stream", headers={"last-event-id": rows[-1].at or ""}) as stream:
            after = await anext(one async for one in stream if one.name != "comment")
        async with streaming(client, "/api/stream", headers={"last-event-id": "elsewhere.7"}) as stream:
            reset = await anext(one async for one in stream if one.name != "comment")

        assert {one.data["execution_id"] for one in rows} == {first}
        assert after.data["execution_id"] == second
        assert reset.name == "reset"


async def test_the_system_stream_includes_changes_by_other_servers() -> None:
    store, results = MemoryStore(), MemoryResults()
    async with (
        talking(workers=0, store=store, results=results) as one,
        talking(workers=0, store=store, results=results) as two,
    ):
        await one.register(HELD)
        services = one.services
        with services.listeners.hub.listen(None) as moved:
            at = services.listeners.hub.number
            execution_id = (await two.start())["execution_id"]
            async with asyncio.timeout(60):
                await moved.wait()

        assert [change.execution_id for change in services.listeners.hub.since(at) or ()] == [execution_id]


async def test_a_subscriber_that_arrives_during_a_poll_misses_nothing() -> None:
    """While nobody listens it only notes from where to go on, and that may lie past what the listener waits for."""
    meanwhile: list[Callable[[], Awaitable[None]]] = []

    class Slow(MemoryStore):
        async def moved(self, cursor: str | None) -> MovedExecutions:
            for happens in meanwhile:
                await happens()
            return await super().moved(cursor)

    store = Slow()
    hub = Hub(store, poll_s=600)
    async with hub.polling():
        with ExitStack() as stack:

            async def somebody_listens_and_another_server_stores() -> None:
                meanwhile.clear()
                stack.enter_context(hub.listen(None))
                await store.commit([commit(event(1))])

            at = hub.number
            meanwhile.append(somebody_listens_and_another_server_stores)
            await hub.poll_store()
            await hub.poll_store()

            assert [change.execution_id for change in hub.since(at) or ()] == ["x1"]


async def test_a_forgotten_position_is_refused() -> None:
    async with talking(workers=0) as talk:
        hub = talk.services.listeners.hub
        for number in range(10_005):
            hub._note(f"x{number}", 1)
        hub._note("x10004", 1)

        assert hub.since(0) is None
        assert hub.since(hub.number + 1) is None
        assert [change.execution_id for change in hub.since(hub.number - 2) or ()] == ["x10003", "x10004"]


async def test_an_idle_stream_sends_comments() -> None:
    async with live(workers=0, stream_heartbeat_s=0.05) as (_, client, talk):
        await talk.register(HELD)
        execution_id = (await talk.start())["execution_id"]
        async with streaming(client, f"/api/executions/{execution_id}/stream") as stream:
            comments = 0
            async for one in stream:
                comments += one.name == "comment"
                if comments == 4:
                    break

        assert comments == 4


@pytest.mark.parametrize("given", ["x", "-1", "1e3"])
async def test_an_unknown_position_is_refused(given: str) -> None:
    async with talking() as talk:
        execution_id = await talk.ran()
        url = f"/api/executions/{execution_id}/stream"
        answer = await talk.client.get(url, headers={"last-event-id": given})

        assert answer.status_code == 400


async def test_a_client_that_reads_nothing_is_disconnected() -> None:
    counted: list[int] = []

    async def parts() -> AsyncIterator[bytes | None]:
        while True:
            yield b"data: 1\n\n"

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        await EventStream(parts(), patience_s=0.05, counted=counted.append)({"type": "http"}, receive, send)

    assert counted == [1, -1]


async def test_a_stream_of_a_long_log_buffers_little_for_a_slow_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "_PIECE_BYTES", 1_000)
    async with talking() as talk:
        execution_id = await talk.ran()
        everything = (await talk.get(f"/api/executions/{execution_id}/events"))["events"]
        pieces = [one async for one in streams._events(talk.services, execution_id, 0, "dotted") if one is not None]

    *pieces, _ = pieces  # the last one tells that it has ended
    assert b"".join(pieces) == b"".join(streams.event_bytes(one, at=str(one["seq"])) for one in everything)
    assert len(pieces) > 2
    for piece in pieces:
        *some, _ = piece.split(b"\n\n")
        assert sum(len(one) + 2 for one in some[:-1]) < 1_000, "all but its last event are less than a piece"
