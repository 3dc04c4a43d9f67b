"""Clocks of machines that are wrong, or are set back while somebody works: the database's alone decides (TMR-07).

A process of ours believes the clock that a file tells: its `time.time` is put there before anything else runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.events.waits import TimerFired
from tests.cluster.backends import Postgres
from tests.cluster.checkers import Log, check, lost_leases
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import cluster
from tests.cluster.playbooks import ALARM, CHAIN, SLOW
from tests.cluster.watching import ends_of, has_begun_a_task
from tests.cluster.wrong_clock import WrongClock
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)
HOUR_S = 3_600


def _waited_s(log: Log) -> float:
    """How long the timer of one second took, by the log."""
    [fired] = [event.ts for event in log if isinstance(event.payload, TimerFired)]
    return fired - log[0].ts


@pytest.mark.req("TMR-07", "WRK-03")
@pytest.mark.parametrize("ahead_s", [HOUR_S, pytest.param(-HOUR_S, marks=pytest.mark.deep)])
def test_a_worker_with_a_clock_off_by_an_hour_keeps_its_leases_and_server_times_apply(
    tmp_path: Path, postgres: Postgres, effects: Effects, ahead_s: float
) -> None:
    wrong = WrongClock(tmp_path / "clock", ahead_s)
    with cluster(tmp_path, postgres.url, ttl_s=30.0) as grounds:
        grounds.server()
        grounds.register(CHAIN, SLOW)
        grounds.worker(environment=wrong.environment)
        starts = Starts(grounds)
        starts.start("cluster/chain", {"url": effects.url}, key="chain")
        starts.start("cluster/slow", {"url": effects.url, "s": 3}, key="slow")
        assert set(ends_of(grounds, starts.accepted)) == {"completed"}
        for log in check(grounds.db, starts.accepted, effects.counts).values():
            assert not lost_leases(log)
            assert all(abs(event.ts - log[0].ts) < HOUR_S / 2 for event in log), (
                "no event is an hour away from the others"
            )


@pytest.mark.req("TMR-07", "TMR-06", "SRV-12")
def test_servers_with_clocks_two_hours_apart_agree_on_leases_and_alarms(
    tmp_path: Path, postgres: Postgres, effects: Effects
) -> None:
    """And one of them is set back by two hours in the middle of it."""
    late, early = WrongClock(tmp_path / "late", -HOUR_S), WrongClock(tmp_path / "early", HOUR_S)
    with cluster(tmp_path, postgres.url, ttl_s=30.0) as grounds:
        grounds.server(environment=late.environment)
        grounds.server(environment=early.environment)
        grounds.register(ALARM, SLOW)
        grounds.worker(0)
        starts, timer_queue = Starts(grounds), Starts(grounds)
        running = starts.start("cluster/slow", {"url": effects.url, "s": 3}, key="slow")
        until(lambda: has_begun_a_task(grounds, running))
        for number in range(4):
            timer_queue.start("cluster/alarm", {"url": effects.url}, key=str(number), first=number)
            if number == 1:
                early.set(-HOUR_S)
        assert set(ends_of(grounds, [*starts.accepted, *timer_queue.accepted])) == {"completed"}
        logs = check(grounds.db, [*starts.accepted, *timer_queue.accepted], effects.counts)
        assert not lost_leases(logs[running]), "nobody takes for lost what another server has leased"
        assert all(1.0 <= _waited_s(logs[one]) < HOUR_S / 2 for one in timer_queue.accepted)


@pytest.mark.deep
@pytest.mark.req("TMR-07", "TMR-06")
def test_a_file_server_whose_clock_jumps_ahead_reassigns_expired_leases(tmp_path: Path, effects: Effects) -> None:
    """A file has no clock of its own. An hour forward ends every lease and fires every alarm; nothing is done that was
    not promised."""
    wrong = WrongClock(tmp_path / "clock", 0)
    with cluster(tmp_path, str(tmp_path / "store.db")) as grounds:
        grounds.server(environment=wrong.environment)
        grounds.register(CHAIN, ALARM, SLOW)
        grounds.worker()
        starts = Starts(grounds)
        running = starts.start("cluster/slow", {"url": effects.url, "s": 2}, key="slow")
        starts.start("cluster/alarm", {"url": effects.url}, key="alarm")
        until(lambda: has_begun_a_task(grounds, running))
        wrong.set(HOUR_S)
        starts.start("cluster/chain", {"url": effects.url}, key="after")
        assert set(ends_of(grounds, starts.accepted, 40)) == {"completed"}
        check(grounds.db, starts.accepted, effects.counts)
