"""A process that is killed at any of its crash points costs nothing that was promised (reliability.md §4.2).

One server and one worker over PostgreSQL, or over a file. The victim dies at the point, is begun again, and the
execution that it was at must end as if nothing had happened.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from noetl.base.crash_points import SERVER_POINTS, VARIABLE, WORKER_POINTS, pass_for
from noetl.base.errors import NoetlError
from tests.cluster.backends import Postgres
from tests.cluster.checkers import check, retaken_leases
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, cluster
from tests.cluster.playbooks import ALARM, CHAIN, GATED, LARGE, SLOW, WIDE
from tests.cluster.watching import end_of, ends_of, has_begun_a_task, status_of
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)  # of a machine that has other things to do
QUICK = {"claim.before_reply", "worker.after_effect", "worker.claimed"}
CAUSES = {"alarm.before": ALARM, "alarm.after": ALARM, "worker.object_stored": LARGE, "worker.heartbeat": SLOW}
# in the middle of handing out a loop, range by range
FAN_OUT = {"append.before:9": WIDE, "append.after:12": WIDE, "claim.before_reply:3": WIDE}
CAUSES |= FAN_OUT


STORES = pytest.mark.parametrize(
    "grounds", ["postgres", pytest.param("sqlite", marks=pytest.mark.deep)], indirect=True, scope="module"
)


def _deep_but_some(points: tuple[str, ...]) -> list[object]:
    return [pytest.param(one, marks=() if one in QUICK else pytest.mark.deep) for one in points]


@pytest.fixture(scope="module")
def grounds(
    tmp_path_factory: pytest.TempPathFactory, one_postgres: Postgres, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A server and a worker, used by one test after another."""
    one_postgres.renew()
    folder = tmp_path_factory.mktemp("crashing")
    with cluster(folder, one_postgres.url if request.param == "postgres" else str(folder / "store.db")) as grounds:
        grounds.server()
        grounds.register(CHAIN, ALARM, GATED, LARGE, SLOW, WIDE)
        with grounds.client() as client:
            client.set_pool("default", capacity=50)  # its count is taken under a lock (append.locked)
        grounds.worker()
        yield grounds


def _path(point: str) -> str:
    return CAUSES.get(point, CHAIN).partition("path: ")[2].partition(" ")[0]


@pytest.mark.req("SRV-12", "SRV-05")
@STORES
@pytest.mark.parametrize("point", _deep_but_some((*(one for one in SERVER_POINTS if "cancel" not in one), *FAN_OUT)))
def test_a_server_killed_at_a_crash_point_loses_nothing(grounds: Cluster, effects: Effects, point: str) -> None:
    [server], starts = grounds.servers, Starts(grounds)
    server.kill()
    server.start(point)
    wanted = {"key": point, "number": 4}
    starting = Thread(target=starts.some, args=(_path(point), {"url": effects.url}), kwargs=wanted)
    starting.start()
    assert server.died(), f"nobody came by {point}"

    server.start()
    starting.join()
    assert set(ends_of(grounds, starts.accepted)) == {"completed"}

    check(grounds.db, starts.accepted, effects.counts)


@pytest.mark.deep
@pytest.mark.req("SRV-11")
@STORES
@pytest.mark.parametrize("point", ["cancel.before", "cancel.after"])
def test_a_cancellation_can_be_repeated_after_the_server_was_killed_during_it(
    grounds: Cluster, effects: Effects, point: str
) -> None:
    [server], starts = grounds.servers, Starts(grounds)
    server.kill()
    server.start(point)
    execution_id = starts.start("cluster/slow", {"url": effects.url, "s": 60}, key=point)
    until(lambda: has_begun_a_task(grounds, execution_id))
    with grounds.client() as client, pytest.raises(NoetlError):
        client.cancel(execution_id)
    assert server.died()

    server.start()
    with grounds.client() as client:
        if status_of(grounds, execution_id) == "running":
            client.cancel(execution_id)
    assert end_of(grounds, execution_id) == "cancelled"
    check(grounds.db, starts.accepted, effects.counts)
    assert not effects.of(execution_id), "P10: what would have followed never happened"


@pytest.mark.req("WRK-03", "WRK-04", "O-06")
@STORES
@pytest.mark.parametrize("point", _deep_but_some(WORKER_POINTS))
def test_a_worker_killed_at_a_crash_point_is_replaced(grounds: Cluster, effects: Effects, point: str) -> None:
    """The lease runs out and another worker goes on after the last task that was recorded."""
    [server, *_], starts = grounds.servers, Starts(grounds)
    if not server.is_alive:
        server.start()
    for other in grounds.workers:
        other.kill()
    victim = grounds.worker(crash_at=point, waits=False)
    execution_id = starts.start(_path(point), {"url": effects.url}, key=point)
    assert victim.died(), f"nobody came by {point}"

    grounds.worker()
    assert end_of(grounds, execution_id) == "completed"
    check(grounds.db, starts.accepted, effects.counts)


@pytest.mark.req("WRK-03", "O-06")
@STORES
def test_a_worker_killed_in_the_middle_of_a_tool_is_replaced(grounds: Cluster, effects: Effects) -> None:
    [server, *_], starts = grounds.servers, Starts(grounds)
    if not server.is_alive:
        server.start()
    for other in grounds.workers:
        other.kill()
    victim = grounds.worker()
    gate = grounds.folder / "gate"
    execution_id = starts.start("cluster/gated", {"url": effects.url, "gate": str(gate)}, key="mid-tool")
    until(lambda: has_begun_a_task(grounds, execution_id))
    victim.kill()
    gate.touch()

    grounds.worker()
    assert end_of(grounds, execution_id) == "completed"
    assert retaken_leases(check(grounds.db, starts.accepted, effects.counts)[execution_id]) >= 1


def test_crash_points_are_off_by_default_and_an_unknown_name_is_refused() -> None:
    pass_for(None)("append.before")
    with pytest.raises(ValueError, match=r'no crash point "append\.befor"'):
        pass_for("append.befor")


@pytest.mark.parametrize(("wanted", "passes"), [("append.before", 1), ("append.before:3", 3), ("worker.claimed=b", 2)])
def test_the_process_dies_at_the_named_crash_point(tmp_path: Path, wanted: str, passes: int) -> None:
    code = (
        "from noetl.base.crash_points import crash_point\n"
        "for n in range(1, 9):\n"
        "    print(n, flush=True)\n"
        "    crash_point('append.before'); crash_point('append.after')\n"
        "    crash_point('worker.claimed', 'ab'[n % 2 == 0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={VARIABLE: wanted}, capture_output=True, text=True, check=False
    )
    assert done.returncode == -9
    assert done.stdout.split()[-1] == str(passes)
