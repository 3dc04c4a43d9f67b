"""Very many requests at once: starts, and workers that all reconnect when their server returns. Refused clients are
asked to retry, and everything that was accepted ends (reliability.md §3.7)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from noetl.client.administration_requests import make_token
from noetl.events.executions import PlaybookProcessed
from noetl.store.postgres.database import DEFAULT_SCHEMA
from tests.cluster.backends import Postgres
from tests.cluster.checkers import check
from tests.cluster.herd import Herd, until
from tests.cluster.machines import Cluster, cluster
from tests.cluster.playbooks import ONE
from tests.narrowing import payload


def _open(postgres: Postgres) -> int:
    where = "WHERE finished_at IS NULL"
    return int(postgres.ask(f"SELECT count(*) FROM {DEFAULT_SCHEMA}.execution {where}", postgres.database))


async def _put_through(grounds: Cluster, postgres: Postgres, herd: Herd, workers: int, starts: int) -> None:
    [server] = grounds.servers
    working = [asyncio.create_task(herd.work(f"herd{number}")) for number in range(workers)]
    try:
        began = time.monotonic()
        await herd.start_all("cluster/one", starts, name="first")
        accepted_s = time.monotonic() - began
        while await asyncio.to_thread(_open, postgres):
            await asyncio.sleep(0.2)
        ended_s = time.monotonic() - began

        server.kill()
        herd.turns.clear()
        await asyncio.to_thread(server.start)
        began = time.monotonic()
        await herd.start_all("cluster/one", starts // 10, name="second")
        await until(lambda: len(herd.turns) == workers, 120, "not every worker is back")
        back_s = time.monotonic() - began
        while await asyncio.to_thread(_open, postgres):
            await asyncio.sleep(0.2)
        print(
            f"{starts} starts at once accepted in {accepted_s:.1f} s, over after {ended_s:.1f} s; {workers} workers "
            f"back in {back_s:.1f} s; answers {dict(herd.statuses)}, unanswered {dict(herd.lost)}"
        )
    finally:
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await herd.close()


@pytest.mark.req("SRV-12", "SRV-08")
@pytest.mark.parametrize(
    ("workers", "starts"),
    [
        pytest.param(40, 150, id="small", marks=pytest.mark.timeout(300)),
        pytest.param(1_000, 5_000, id="whole", marks=[pytest.mark.deep, pytest.mark.timeout(900)]),
    ],
)
def test_a_thousand_simultaneous_clients_are_served_and_every_accepted_execution_ends(
    tmp_path: Path, postgres: Postgres, workers: int, starts: int
) -> None:
    with cluster(tmp_path, postgres.url, ttl_s=30.0) as grounds:
        server = grounds.server()
        grounds.register(ONE)
        with grounds.client() as client:
            made = client.send(make_token({"subject": "herd", "role": "worker", "pools": ["default"]}))
        herd = Herd(grounds.urls[0], (tmp_path / "token").read_text().strip(), made.token)
        asyncio.run(_put_through(grounds, postgres, herd, workers, starts))

        assert herd.rude == []
        assert len(herd.accepted) == starts + starts // 10
        logs = check(grounds.db, herd.accepted)
        assert all(payload(log[-1], PlaybookProcessed).status.value == "completed" for log in logs.values())
        assert server.is_alive
