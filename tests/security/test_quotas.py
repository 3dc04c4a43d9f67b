"""What one subject can use of a server: open executions, starts, stored bytes and streams; and the room on the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from noetl.base.clock import ManualClock
from noetl.operations.identity import Role
from noetl.server.configuration import Quotas
from noetl.server.problem_details import ProblemDetails
from noetl.server.quotas import Usage, free_bytes_of
from noetl.store.results.files import FileResults, MemoryResults
from tests.server.live import live
from tests.server.talking import talking

WAITING = "workflow: [{step: start, tool: {kind: python, code: x}}]"


async def started(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/api/executions", json={"path": "tests/test", "payload": {}})


async def test_a_subject_has_only_so_many_executions_open() -> None:
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
    assert "3 of your executions are open, which is the quota here" in answers[3].json()["detail"]
    assert other.status_code == 201, "a quota is one subject's own"
    assert again.status_code == 201, "what has ended counts no longer"


async def test_a_subject_starts_only_so_many_within_a_minute_and_stores_so_much_within_a_day() -> None:
    clock = ManualClock()
    async with talking(workers=0, clock=clock, quotas=Quotas(starts_per_minute=5, stored_bytes=20_000)) as talk:
        await talk.register(WAITING)
        at_once = [(await started(talk.client)).status_code for _ in range(6)]
        clock.advance(12.0)
        later = [(await started(talk.client)).status_code for _ in range(2)]
        clock.advance(60.0)
        large = await talk.client.post(
            "/api/executions", json={"path": "tests/test", "payload": {"text": "x" * 30_000}}
        )
        full = await started(talk.client)
        clock.advance(86_400.0)
        next_day = await started(talk.client)

    assert at_once == [201] * 5 + [429]
    assert later == [201, 429]
    assert (large.status_code, full.status_code, next_day.status_code) == (201, 429, 201)
    assert "have stored 20000 bytes today" in full.json()["detail"]


async def test_what_was_not_started_does_not_count() -> None:
    usage = Usage(Quotas(open_executions=1), ManualClock())
    for _ in range(3):
        with pytest.raises(ValueError, match="no"), usage.starting("x", "ann"):
            raise ValueError("no")

    assert not usage.open


async def test_a_subject_reads_only_so_many_streams() -> None:
    async with live(workers=0, quotas=Quotas(streams=2)) as (_, client, talk):
        async with client.stream("GET", "/api/stream") as one, client.stream("GET", "/api/stream") as two:
            third = await client.get("/api/stream")
        async with asyncio.timeout(60):
            while talk.services.usage.streams:  # the server hears of it a moment later
                await asyncio.sleep(0.01)
        async with client.stream("GET", "/api/stream") as fourth:
            pass

    assert (one.status_code, two.status_code, third.status_code, fourth.status_code) == (200, 200, 429, 200)


async def test_nothing_is_started_when_the_disk_is_nearly_full(tmp_path: Path) -> None:
    free = 10
    usage = Usage(Quotas(free_bytes=100), ManualClock(), lambda: free)
    with pytest.raises(ProblemDetails) as refused:
        usage.check_start("ann")

    assert refused.value.status == 503
    assert refused.value.headers["retry-after"] == "60"
    assert free_bytes_of(str(tmp_path / "none" / "s.db"), FileResults(tmp_path / "results")) is not None
    assert free_bytes_of(":memory:", MemoryResults()) is None
    assert free_bytes_of("postgresql://localhost/x", MemoryResults()) is None
