"""A cluster of real processes whose parts are killed, frozen, cut off or restarted while it works (reliability.md
§4.2)."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from noetl.base.crash_points import BY
from noetl.events.executions import PlaybookProcessed
from noetl.store.postgres.database import DEFAULT_SCHEMA
from tests.cluster.backends import Nats, Postgres
from tests.cluster.checkers import check, retaken_leases
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import cluster
from tests.cluster.playbooks import CHAIN, GATED, LARGE, LOOP, POISON, SLOW
from tests.cluster.watching import ends_of, has_begun_a_task, status_of
from tests.servers.cutting import Line, cutting
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)  # of a machine that has other things to do


@pytest.mark.req("WRK-03", "WRK-04")
def test_a_worker_frozen_past_its_lease_changes_nothing_when_it_continues(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    with cluster(tmp_path, postgres.url) as grounds:
        grounds.server()
        grounds.register(GATED)
        frozen, starts, gate = grounds.worker(), Starts(grounds), tmp_path / "gate"
        payload = {"url": effects.url, "gate": str(gate)}
        execution_id = starts.start("cluster/gated", payload, key="slow")
        until(lambda: has_begun_a_task(grounds, execution_id))
        frozen.freeze()
        until(lambda: frozen.is_frozen)
        gate.touch()
        grounds.worker()
        assert ends_of(grounds, starts.accepted) == ["completed"]
        log = check(grounds.db, starts.accepted, effects.counts)[execution_id]
        assert retaken_leases(log) >= 1

        happened = effects.of(execution_id)
        frozen.thaw()
        starts.start("cluster/gated", payload, key="again")
        assert ends_of(grounds, starts.accepted) == ["completed"] * 2
        assert effects.of(execution_id) == happened, "what it was at came to nothing"
        assert check(grounds.db, starts.accepted, effects.counts)[execution_id][: len(log)] == log
        assert frozen.is_alive, "it goes on with other work"


@pytest.mark.req("WRK-03", "WRK-04", "LOOP-07")
@pytest.mark.parametrize(
    ("point", "playbook"),
    [
        pytest.param("worker.after_effect=last", CHAIN, id="before its report"),
        pytest.param("worker.heartbeat", SLOW, id="before its heartbeat", marks=pytest.mark.deep),
        pytest.param("worker.before_tool=start:3", LOOP, id="in a loop", marks=pytest.mark.deep),
    ],
)
def test_a_worker_frozen_at_a_crash_point_is_replaced_and_changes_nothing_later(
    tmp_path: Path, postgres: Postgres, effects: Effects, point: str, playbook: str
) -> None:
    with cluster(tmp_path, postgres.url) as grounds:
        grounds.server()
        grounds.register(playbook)
        frozen, starts = grounds.worker(crash_at=point, environment={BY: "STOP"}), Starts(grounds)
        path = playbook.partition("path: ")[2].partition(" ")[0]
        execution_id = starts.start(path, {"url": effects.url}, key="one")
        until(lambda: frozen.is_frozen)
        grounds.worker()
        assert ends_of(grounds, starts.accepted) == ["completed"]
        log = check(grounds.db, starts.accepted, effects.counts)[execution_id]
        assert retaken_leases(log) >= 1

        frozen.thaw()
        starts.start(path, {"url": effects.url}, key="again")
        assert ends_of(grounds, starts.accepted) == ["completed"] * 2
        assert check(grounds.db, starts.accepted)[execution_id][: len(log)] == log, "refused reports apart"
        assert frozen.is_alive, "it goes on with other work"


@pytest.mark.req("WRK-03", "WRK-04")
@pytest.mark.parametrize(
    ("point", "begun"),
    [
        pytest.param("worker.claimed=start", 0, id="before its first task"),
        pytest.param("worker.before_tool=last", 0, id="before a tool"),
        pytest.param("worker.before_tool=each:2", 1, id="in a loop", marks=pytest.mark.deep),
    ],
)
def test_a_worker_that_continues_after_its_lease_expired_starts_no_task(
    tmp_path: Path, postgres: Postgres, effects: Effects, point: str, begun: int
) -> None:
    """Another one has done the task meanwhile, so the ledger must not count it again. A task that had begun when its
    worker froze is another matter: its request may leave the worker when that wakes."""
    with cluster(tmp_path, postgres.url) as grounds:
        grounds.server()
        grounds.register(CHAIN)
        frozen, starts = grounds.worker(crash_at=point, environment={BY: "STOP"}), Starts(grounds)
        execution_id = starts.start("cluster/chain", {"url": effects.url}, key="one")
        until(lambda: frozen.is_frozen)
        other = grounds.worker()
        assert ends_of(grounds, starts.accepted) == ["completed"]
        happened = effects.of(execution_id)
        assert other.stop() == 0

        frozen.thaw()
        starts.start("cluster/chain", {"url": effects.url}, key="again")
        assert ends_of(grounds, starts.accepted) == ["completed"] * 2, "it goes on with other work"
        again = effects.of(execution_id) - happened
        assert again.total() <= begun, again
        check(grounds.db, starts.accepted, effects.counts)


@pytest.mark.req("SRV-12")
def test_everything_continues_after_postgresql_was_killed_and_restarted(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    """A worker inside the server, and one elsewhere; neither has to be begun again."""
    with cluster(tmp_path, postgres.url) as grounds:
        inside = grounds.server("--workers-in-process", "2", "--allow-address", "127.0.0.1")
        grounds.register(CHAIN)
        outside, starts = grounds.worker(), Starts(grounds)

        def start_some() -> None:
            for number in range(30):
                starts.start("cluster/chain", {"url": effects.url}, key=str(number))

        starting = threading.Thread(target=start_some)
        starting.start()
        for _ in range(2):
            time.sleep(0.7)
            postgres.bounce()
        starting.join()
        assert len(starts.accepted) == 30
        assert set(ends_of(grounds, starts.accepted)) == {"completed"}
        check(grounds.db, starts.accepted, effects.counts)
        assert inside.is_alive
        assert outside.is_alive


@pytest.mark.req("SRV-12")
def test_losing_the_data_of_nats_delays_no_execution_forever(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    """The headline: delete its data directory at any moment, and every accepted execution completes."""
    broker = Nats()
    try:
        with cluster(tmp_path, postgres.url, nats=broker.url) as grounds:
            grounds.server()
            grounds.server()
            grounds.register(CHAIN)
            grounds.worker(0)
            grounds.worker(1)
            starts = Starts(grounds)
            for number in range(24):
                starts.start("cluster/chain", {"url": effects.url}, key=str(number), first=number)
                if number % 8 == 4:
                    broker.kill()
                    broker.start(empty=True)
            assert set(ends_of(grounds, starts.accepted)) == {"completed"}
            check(grounds.db, starts.accepted, effects.counts)
    finally:
        broker.stop()


@pytest.mark.deep
@pytest.mark.req("SRV-08")
def test_an_order_that_kills_its_workers_is_given_up_and_others_complete(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    """Neither who comes while it kills, nor who is in its worker when it does."""
    with cluster(tmp_path, postgres.url, ttl_s=1.0) as grounds:
        grounds.server()
        grounds.register(CHAIN, POISON, SLOW)
        worker = grounds.worker(0, "--concurrency", "8", crash_at="worker.before_tool=poison")
        starts, innocent = Starts(grounds), Starts(grounds)
        for number in range(4):
            innocent.start("cluster/slow", {"url": effects.url, "s": 1.5}, key=f"beside{number}")
        poison = starts.start("cluster/poison", {"url": effects.url}, key="poison")
        deaths = 0
        end = time.monotonic() + 90
        while status_of(grounds, poison) == "running":
            assert time.monotonic() < end, "it goes on killing"
            if not worker.is_alive:
                deaths += 1
                worker.start("worker.before_tool=poison", waits=False)
                innocent.start("cluster/chain", {"url": effects.url}, key=str(deaths))
            time.sleep(0.05)
        assert set(ends_of(grounds, innocent.accepted)) == {"completed"}
        log = check(grounds.db, [*starts.accepted, *innocent.accepted], effects.counts)[poison]
        assert deaths == 5
        [over] = [event.payload for event in log if isinstance(event.payload, PlaybookProcessed)]
        assert over.error is not None
        assert over.error.kind == "lease.lost"


@pytest.mark.deep
@pytest.mark.req("SRV-12", "WRK-01")
def test_a_rolling_restart_under_load_loses_nothing(tmp_path: Path, postgres: Postgres, effects: Effects) -> None:
    with cluster(tmp_path, postgres.url, ttl_s=30.0) as grounds:
        grounds.server()
        grounds.server()
        grounds.register(LOOP)
        grounds.worker(0)
        grounds.worker(1)
        starts, stop = Starts(grounds), threading.Event()

        def go_on() -> None:
            number = 0
            while not stop.is_set():
                starts.start("cluster/loop", {"url": effects.url}, key=str(number), first=number)
                number += 1
                time.sleep(0.02)

        loading = threading.Thread(target=go_on)
        loading.start()
        try:
            for member in (*grounds.servers, *grounds.workers):
                assert member.stop() == 0, "it ends in order"
                member.start()
            until(lambda: len(starts.accepted) > 20)
        finally:
            stop.set()
            loading.join(60)
        assert set(ends_of(grounds, starts.accepted)) == {"completed"}
        logs = check(grounds.db, starts.accepted, effects.counts)
        assert effects.total() == 6 * len(logs), "nothing was done twice: who leaves finishes what it holds"


@pytest.mark.req("WRK-03")
def test_a_worker_that_stops_early_returns_its_order_at_once(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    with cluster(tmp_path, postgres.url, ttl_s=3600.0) as grounds:
        grounds.server()
        grounds.register(GATED)
        leaving, starts, gate = grounds.worker(0, "--drain-timeout", "0.2"), Starts(grounds), tmp_path / "gate"
        execution_id = starts.start("cluster/gated", {"url": effects.url, "gate": str(gate)}, key="slow")
        until(lambda: has_begun_a_task(grounds, execution_id))
        grounds.worker()
        assert leaving.stop() == 1, "it says that something is unfinished"
        gate.touch()

        assert ends_of(grounds, starts.accepted) == ["completed"], "long before the lease has run out"
        check(grounds.db, starts.accepted, effects.counts)


@pytest.mark.deep
@pytest.mark.req("RES-01")
def test_a_full_results_disk_delays_only_executions_that_store_results(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    """A limit on the size of the server's files stands for it. There is no restart."""
    with cluster(tmp_path, postgres.url) as grounds:
        # half a compiled module would stay, for all others
        server = grounds.server(environment={"PYTHONDONTWRITEBYTECODE": "1"})
        grounds.register(CHAIN, LARGE)
        grounds.worker()
        large, small = Starts(grounds), Starts(grounds)
        assert server.child is not None
        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
        execution_id = large.start("cluster/large", {"url": effects.url}, key="large")
        small.start("cluster/chain", {"url": effects.url}, key="small")
        assert ends_of(grounds, small.accepted) == ["completed"]
        assert status_of(grounds, execution_id) == "running"

        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert ends_of(grounds, large.accepted) == ["completed"]
        check(grounds.db, [*large.accepted, *small.accepted], effects.counts)


@contextmanager
def _cut(socket: str, cuts: threading.Event) -> Iterator[Line]:
    """A line to PostgreSQL that loses the answer to a request now and then while `cuts`, from a thread of its own."""
    made: list[Line] = []
    ready, over = threading.Event(), threading.Event()

    async def carry() -> None:
        async with cutting(socket) as line:
            made.append(line)
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.15)
                line.cut_answer = 1 if cuts.is_set() else 0

    carrying = threading.Thread(target=lambda: asyncio.run(carry()))
    carrying.start()
    ready.wait(10)
    try:
        yield made[0]
    finally:
        over.set()
        carrying.join(10)


@pytest.mark.deep
@pytest.mark.req("SRV-12", "SRV-05")
def test_a_connection_lost_between_commit_and_acknowledgement_loses_nothing(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    cuts = threading.Event()
    with _cut(postgres.socket, cuts) as line, cluster(tmp_path, postgres.url) as grounds:
        grounds.server()
        grounds.register(CHAIN)
        grounds.db, direct = line.url(postgres.database, DEFAULT_SCHEMA), grounds.db
        grounds.server()
        grounds.worker(1)
        starts = Starts(grounds)
        cuts.set()
        for number in range(30):
            starts.start("cluster/chain", {"url": effects.url}, key=str(number), first=1)
        assert set(ends_of(grounds, starts.accepted)) == {"completed"}
        check(direct, starts.accepted, effects.counts)
        assert line.cuts > 5, "it was put to the test"


@pytest.mark.req("SRV-11")
def test_a_cancellation_on_one_server_stops_a_tool_of_a_worker_on_another(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    """P10: it is heard with the next heartbeat. The worker has one slot, so who comes next shows that it is free."""
    with cluster(tmp_path, postgres.url) as grounds:
        grounds.server()
        grounds.server()
        grounds.register(CHAIN, SLOW)
        grounds.worker(1, "--concurrency", "1")
        starts, following = Starts(grounds), Starts(grounds)
        execution_id = starts.start("cluster/slow", {"url": effects.url, "s": 600}, key="slow")
        until(lambda: has_begun_a_task(grounds, execution_id))
        with grounds.client(0) as client:
            client.cancel(execution_id)
        following.start("cluster/chain", {"url": effects.url}, key="next")
        assert ends_of(grounds, following.accepted) == ["completed"]
        check(grounds.db, [*starts.accepted, *following.accepted], effects.counts)
        assert not effects.of(execution_id)
