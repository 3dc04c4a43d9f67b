"""PostgreSQL, or the broker, is killed at the very moment a server passes one of its crash points (reliability.md
§4.2).

Whatever was under way there may have been stored or not; the server has to find out, and the execution has to end.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from noetl.base.crash_points import SERVER_POINTS, VICTIM
from tests.cluster.backends import Nats, Postgres
from tests.cluster.checkers import check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, cluster
from tests.cluster.playbooks import ALARM, CHAIN
from tests.cluster.watching import ends_of

pytestmark = pytest.mark.timeout(300)
POINTS = tuple(one for one in SERVER_POINTS if "cancel" not in one)
QUICK = {("postgres", "append.locked"), ("postgres", "append.after"), ("nats", "ring.before")}


@pytest.fixture(scope="module")
def broker() -> Iterator[Nats]:
    made = Nats()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory, one_postgres: Postgres, broker: Nats) -> Iterator[Cluster]:
    one_postgres.renew()
    with cluster(tmp_path_factory.mktemp("backends"), one_postgres.url, nats=broker.url) as grounds:
        grounds.server()
        grounds.register(CHAIN, ALARM)
        with grounds.client() as client:
            client.set_pool("default", capacity=50)  # its count is taken under a lock (append.locked)
        grounds.worker()
        yield grounds


@pytest.mark.req("SRV-12", "SRV-05")
@pytest.mark.parametrize(
    ("backend", "point"),
    [
        pytest.param(backend, point, marks=() if (backend, point) in QUICK else pytest.mark.deep)
        for backend in ("postgres", "nats")
        for point in POINTS
    ],
)
def test_a_killed_backend_loses_nothing(
    grounds: Cluster, one_postgres: Postgres, broker: Nats, effects: Effects, backend: str, point: str
) -> None:
    [server], starts = grounds.servers, Starts(grounds)
    victim = one_postgres if backend == "postgres" else broker
    server.kill()
    one_postgres.revive()
    broker.revive()
    server.start(point, environment={VICTIM: str(victim.pid)})
    path = "cluster/alarm" if point.startswith("alarm") else "cluster/chain"
    starting = Thread(target=starts.some, args=(path, {"url": effects.url}), kwargs={"key": f"{backend}/{point}"})
    starting.start()
    assert victim.died(), f"nobody came by {point}"

    victim.start()
    starting.join()
    assert set(ends_of(grounds, starts.accepted)) == {"completed"}
    check(grounds.db, starts.accepted, effects.counts)
    assert server.is_alive, "the server itself went on"
