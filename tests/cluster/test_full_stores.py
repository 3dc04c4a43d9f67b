"""A store that is read-only or full: nothing is accepted or claimed, reads are served, and work continues without a
restart once there is room (reliability.md §3.7)."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cluster.backends import Postgres
from tests.cluster.checkers import check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, cluster
from tests.cluster.playbooks import CHAIN, GATED
from tests.cluster.watching import NOT_FOR_OPERATORS, ends_of, has_begun_a_task, lines_of, status_of
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)
Switch = Callable[[], None]


def _asked(grounds: Cluster, method: str, path: str, **how: Any) -> httpx2.Response:
    token = (grounds.folder / "token").read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.request(method, grounds.urls[0] + path, headers=headers, timeout=90, **how)


def _files_bounded(grounds: Cluster, size: int) -> None:
    """As a full disk would, for the files of the server: the store has outgrown this, its log of requests has not."""
    [server] = grounds.servers
    assert server.child is not None
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def _full_file(folder: Path) -> Iterator[tuple[Cluster, Switch, Switch]]:
    with cluster(folder, str(folder / "store.db")) as grounds:
        yield grounds, lambda: _files_bounded(grounds, 65_536), lambda: _files_bounded(grounds, resource.RLIM_INFINITY)


@contextmanager
def _read_only_database(folder: Path, postgres: Postgres) -> Iterator[tuple[Cluster, Switch, Switch]]:
    """As a server is that has lost its primary, or was told so by its operator."""

    def switched(is_read_only: bool) -> None:
        postgres.ask(f"ALTER DATABASE {postgres.database} SET default_transaction_read_only = {is_read_only}")
        others = f"datname = '{postgres.database}' AND pid <> pg_backend_pid()"
        postgres.ask(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")

    with cluster(folder, postgres.url) as grounds:
        yield grounds, lambda: switched(True), lambda: switched(False)


@pytest.mark.req("SRV-12", "RES-01")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_server_with_a_full_store_refuses_writes_serves_reads_and_recovers(
    tmp_path: Path, postgres: Postgres, effects: Effects, store: str
) -> None:
    made = _full_file(tmp_path) if store == "sqlite" else _read_only_database(tmp_path, postgres)
    with made as (grounds, close, reopen):
        # half a compiled module would stay, for all others
        server = grounds.server(environment={"PYTHONDONTWRITEBYTECODE": "1"})
        grounds.register(CHAIN, GATED)
        worker, starts, gate = grounds.worker(), Starts(grounds), tmp_path / "gate"
        running = starts.start("cluster/gated", {"url": effects.url, "gate": str(gate)}, key="running")
        until(lambda: has_begun_a_task(grounds, running))

        close()
        body: dict[str, object] = {"path": "cluster/chain", "payload": {"url": effects.url}}
        answers: list[httpx2.Response] = []
        refused = until(lambda: _refused(grounds, body, answers))
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["content-type"] == "application/problem+json"
        for path in ("/api/executions", f"/api/executions/{running}", f"/api/executions/{running}/events"):
            read = _asked(grounds, "GET", path)
            assert read.status_code == 200, f"{path}: {read.text}"
        assert status_of(grounds, running) == "running"

        reopen()
        gate.touch()
        starts.start("cluster/chain", {"url": effects.url}, key="later")
        assert set(ends_of(grounds, starts.accepted)) == {"completed"}
        check(grounds.db, starts.accepted, effects.counts)
        assert server.is_alive
        assert worker.is_alive
        listed = _asked(grounds, "GET", "/api/executions").json()
        assert len(listed["executions"]) == 2 + len(answers) - 1, "what was refused was not begun"
        written = lines_of(server)
        assert [line for line in written if any(one in line for one in NOT_FOR_OPERATORS)] == []
        # Connections to PostgreSQL were ended by the switch: the wake-ups were too, which is an outage of its own.
        lines = [line for line in written if '"level": "warning"' in line and "wake-ups" not in line]
        assert len(lines) == 2, lines
        assert "cannot be written" in lines[0]
        assert "can be written again" in lines[1]


def _refused(grounds: Cluster, body: dict[str, object], answers: list[httpx2.Response]) -> httpx2.Response | None:
    """The answer to a start, once the store is closed to the server's connections: one may be served before that."""
    answers.append(_asked(grounds, "POST", "/api/executions", json=body))
    return answers[-1] if answers[-1].status_code >= 400 else None
