"""What one subject can use of a server: open executions, starts, stored bytes and streams; and the room on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from noetl.base.clock import Clock, ManualClock
from noetl.operations.administration_shapes import Role
from noetl.server.configuration import Quotas
from noetl.server.problem_details import ProblemDetails
from noetl.server.quotas import SharedUsage, Usage, free_bytes_of
from noetl.store.installation import KeyValues, MemoryKeyValues
from noetl.store.memory import MemoryStore
from noetl.store.results.files import FileResults, MemoryResults
from tests.security.slow_key_values import SlowKeyValues
from tests.server.live import live
from tests.server.talking import talking

WAITING = "workflow: [{step: start, tool: {kind: python, code: x}}]"


def usage_of(
    quotas: Quotas,
    key_values: KeyValues | None = None,
    clock: Clock | None = None,
    free_bytes: Callable[[], int | None] = lambda: None,
) -> Usage:
    clock = clock or ManualClock()
    return Usage(quotas, clock, SharedUsage(key_values or MemoryKeyValues(), clock), free_bytes)


async def is_started(usage: Usage, subject: str = "ann") -> bool:
    try:
        await usage.check_start(subject)
    except ProblemDetails as problem:
        if problem.status != 429:
            raise
        return False
    return True


async def started(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/api/executions", json={"path": "tests/test", "payload": {}})


async def test_the_number_of_open_executions_per_subject_is_limited() -> None:
    async with talking(workers=0, quotas=Quotas(open_executions=3)) as talk:
        await talk.register(WAITING)
        operator = await talk.as_role(Role.OPERATOR)
        answers = [await started(operator) for _ in range(4)]
        other = await started(talk.client)
        first = answers[0].json()["execution_id"]
        await talk.post(f"/api/executions/{first}/cancel")
        again = await started(operator)

    assert [one.status_code for one in answers] == [201, 201, 201, 429]
    assert "retry-after" in answers[3].headers
    assert "3 of your executions are open, which is your quota" in answers[3].json()["detail"]
    assert other.status_code == 201, "a quota is one subject's own"
    assert again.status_code == 201, "what has ended counts no longer"


async def test_starts_per_minute_and_stored_bytes_per_day_are_limited_per_subject() -> None:
    clock = ManualClock()
    async with talking(workers=0, clock=clock, quotas=Quotas(starts_per_minute=5, stored_bytes=20_000)) as talk:
        await talk.register(WAITING)
        clock.advance(-clock.now() % 60.0)
        at_once = [(await started(talk.client)).status_code for _ in range(6)]
        clock.advance(48.0)
        late = await started(talk.client)
        clock.advance(12.0)
        large = await talk.client.post(
            "/api/executions", json={"path": "tests/test", "payload": {"text": "x" * 30_000}}
        )
        full = await started(talk.client)
        clock.advance(86_400.0)
        next_day = await started(talk.client)

    assert at_once == [201] * 5 + [429]
    assert (late.status_code, late.headers["retry-after"]) == (429, "12")
    assert "you have started 5 executions within this minute" in late.json()["detail"]
    assert (large.status_code, full.status_code, next_day.status_code) == (201, 429, 201)
    assert "have stored 20000 bytes today" in full.json()["detail"]


async def test_a_failed_start_is_not_counted() -> None:
    usage = usage_of(Quotas(open_executions=1))
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            async with usage.starting("x", "ann"):
                raise ValueError("no")

    assert not usage.subjects["ann"].open


async def test_the_number_of_streams_per_subject_is_limited() -> None:
    async with live(workers=0, quotas=Quotas(streams=2)) as (_, client, talk):
        async with client.stream("GET", "/api/stream") as one, client.stream("GET", "/api/stream") as two:
            third = await client.get("/api/stream")
        async with asyncio.timeout(60):
            while talk.services.listeners.usage.streams:  # the server hears of it a moment later
                await asyncio.sleep(0.01)
        async with client.stream("GET", "/api/stream") as fourth:
            pass

    assert (one.status_code, two.status_code, third.status_code, fourth.status_code) == (200, 200, 429, 200)


async def test_nothing_starts_when_the_disk_is_nearly_full(tmp_path: Path) -> None:
    free = 10
    usage = usage_of(Quotas(free_bytes=100), free_bytes=lambda: free)
    with pytest.raises(ProblemDetails) as refused:
        await usage.check_start("ann")

    assert refused.value.status == 503
    assert refused.value.headers["retry-after"] == "60"
    assert free_bytes_of(str(tmp_path / "none" / "s.db"), FileResults(tmp_path / "results")) is not None
    assert free_bytes_of(":memory:", MemoryResults()) is None
    assert free_bytes_of("postgresql://localhost/x", MemoryResults()) is None


@pytest.mark.parametrize("quota", [1, 7, 250])
@pytest.mark.parametrize("kind", ["open_executions", "starts_per_minute"])
async def test_concurrent_starts_on_several_servers_respect_the_quota(kind: str, quota: int) -> None:
    key_values = SlowKeyValues()
    servers = [usage_of(Quotas(**{kind: quota}), key_values) for _ in range(3)]
    asked = [is_started(servers[number % 3]) for number in range(3 * quota + 30)]

    at_once = sum(await asyncio.gather(*asked))
    one_by_one = 0
    for server in servers * 2:  # what others have claimed and not used is given back
        await server.share(MemoryStore())
    while await is_started(servers[one_by_one % 3]):
        one_by_one += 1
        for server in servers * 2:
            await server.share(MemoryStore())

    assert at_once + one_by_one == quota


async def test_two_servers_on_one_store_count_together() -> None:
    store, clock = MemoryStore(), ManualClock()
    quotas = Quotas(open_executions=3)
    async with (
        talking(workers=0, store=store, clock=clock, quotas=quotas) as one,
        talking(workers=0, store=store, clock=clock, quotas=quotas) as other,
    ):
        await one.register(WAITING)
        clients = [await talk.as_role(Role.OPERATOR) for talk in (one, other)]
        answers = [await started(clients[number % 2]) for number in range(5)]
        first = answers[0].json()["execution_id"]
        await other.post(f"/api/executions/{first}/cancel")  # the server that started it hears of it from the store
        before = await started(clients[1])
        await one.services.listeners.usage.share(store)
        again = await started(clients[1])

    assert [answer.status_code for answer in answers] == [201, 201, 201, 429, 429]
    assert (before.status_code, again.status_code) == (429, 201)


async def test_starts_and_bytes_of_another_server_count_within_minute_and_day() -> None:
    key_values, clock = MemoryKeyValues(), ManualClock()
    quotas = Quotas(starts_per_minute=2, stored_bytes=100)
    one, other = (usage_of(quotas, key_values, clock) for _ in range(2))
    clock.advance(-clock.now() % 86_400.0)

    assert [await is_started(one), await is_started(other), await is_started(one)] == [True, True, False]
    clock.advance(60.0)
    one.subjects["ann"].stored = 100
    await one.share(MemoryStore())
    assert not await is_started(other)
    clock.advance(86_400.0)
    assert await is_started(other)


async def test_counts_of_a_vanished_server_expire_soon() -> None:
    key_values, clock = MemoryKeyValues(), ManualClock()
    gone, other = (usage_of(Quotas(open_executions=1), key_values, clock) for _ in range(2))

    assert await is_started(gone)
    assert not await is_started(other)
    clock.advance(61.0)
    assert await is_started(other)
    assert await other.sweep() == 1
