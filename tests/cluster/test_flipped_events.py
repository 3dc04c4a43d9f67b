"""A byte of an event changes under a running server: the server reports its execution as damaged, and the others are
not affected."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.client.api_request import ApiError
from tests.cluster.checkers import check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import cluster
from tests.cluster.playbooks import ALARM, CHAIN
from tests.cluster.watching import ends_of
from tests.faults.processes import noetl

CANARY = b"canary-0123456789"
FLIPPED = CANARY.replace(b"n", b"m", 1)


@pytest.mark.timeout(300)
@pytest.mark.req("EVT-01", "EVT-07", "SRV-12")
def test_a_server_detects_a_corrupted_event_and_serves_all_other_executions(tmp_path: Path, effects: Effects) -> None:
    store = tmp_path / "store.db"
    with cluster(tmp_path, str(store)) as grounds:
        server = grounds.server()
        grounds.register(CHAIN, ALARM)
        damaged, others = Starts(grounds), Starts(grounds)
        hurt = damaged.start("cluster/alarm", {"url": effects.url, "mark": CANARY.decode()}, key="hurt")
        others.start("cluster/alarm", {"url": effects.url}, key="whole")
        assert server.stop() == 0
        body = store.read_bytes()
        assert body.count(CANARY) >= 1, "what was logged is in the file once the server has left"
        store.write_bytes(body.replace(CANARY, FLIPPED))

        server.start()
        worker = grounds.worker()
        others.start("cluster/chain", {"url": effects.url}, key="later")

        assert set(ends_of(grounds, others.accepted)) == {"completed"}
        check(grounds.db, others.accepted, effects.counts)
        with grounds.client() as client:
            listed = {one.execution_id: one.status for one in client.list(limit=10).executions}
            assert listed[hurt] == "running", "it is neither lost nor ended"
            for ask in (client.get, client.event_page, client.cancel):
                with pytest.raises(ApiError, match=f"execution {hurt} is damaged"):
                    ask(hurt)
        checked = noetl("db", "check", "--db", str(store), cwd=tmp_path)
        assert checked.code == 1, checked.stdout
        assert [
            line for line in checked.stdout.splitlines() if line.startswith("execution ") and hurt not in line
        ] == []
        assert server.is_alive
        assert worker.is_alive
        assert not effects.of(hurt)
