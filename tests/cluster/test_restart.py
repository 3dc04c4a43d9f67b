"""A server that starts on a store with ten thousand open executions goes on with them and takes new ones (P9)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from noetl.base.clock import SystemClock
from noetl.base.ids import uuid7
from noetl.control.assembly import assemble
from noetl.control.commit.sharing import SharedExecutions
from noetl.store.open_store import open_store
from noetl.store.wakeups import MemoryWakeups
from tests.cluster.backends import Postgres
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import cluster
from tests.cluster.playbooks import ALARM, CHAIN
from tests.cluster.watching import ends_of
from tests.engine_script import net_of

OPEN, AT_ONCE = 10_000, 500


async def _waiting(db: str, number: int) -> None:
    """So many executions that wait for tomorrow."""
    store, results = await open_store(db)
    try:
        control = assemble(store, results, MemoryWakeups(), SystemClock(), sharing=SharedExecutions())
        executions = control.executions
        net = net_of(ALARM.replace("duration: 1 ", "duration: 1d "))
        for _ in range(number // AT_ONCE):
            ids = [uuid7(time.time()) for _ in range(AT_ONCE)]
            begun = (executions.start(net, execution_id=one, trace_id=one, payload={}) for one in ids)
            await asyncio.gather(*begun)
        await control.close()
    finally:
        await store.close()


@pytest.mark.deep
@pytest.mark.timeout(400)
@pytest.mark.req("SRV-12")
def test_a_server_restarts_at_once_with_many_open_executions(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    asyncio.run(_waiting(postgres.url, OPEN))
    with cluster(tmp_path, postgres.url) as grounds:
        server = grounds.server()
        grounds.register(CHAIN)
        grounds.worker()
        server.kill()

        server.start()
        starts = Starts(grounds)
        starts.start("cluster/chain", {"url": effects.url}, key="one")
        assert ends_of(grounds, starts.accepted) == ["completed"]
        with grounds.client() as client:
            assert client.list(status="running").next is not None
