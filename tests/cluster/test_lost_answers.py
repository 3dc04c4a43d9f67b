"""Answers between a server and a worker are lost: the orders in them are handed out again, and no lease expires."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import pytest

from noetl.events.tokens import TokenClaimed
from tests.cluster.backends import Postgres
from tests.cluster.checkers import Log, check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, cluster
from tests.cluster.playbooks import CHAIN
from tests.cluster.watching import end_of, ends_of
from tests.servers.losing import LosingLine

pytestmark = pytest.mark.timeout(900)  # of a machine that has other things to do
LEASE_S = 30.0
AT_ONCE = 8


def lost_leases(logs: Mapping[str, Log]) -> int:
    """How often an order was claimed again. Nobody is killed here: each time, a lease ran out for nothing."""
    payloads = [event.payload for log in logs.values() for event in log]
    return sum(1 for one in payloads if isinstance(one, TokenClaimed) and one.lease_epoch > 1)


def while_answers_are_lost(grounds: Cluster, effects: Effects, line: LosingLine, wanted: int) -> tuple[Starts, float]:
    """Have work done until so many answers are lost; then the line heals, and all of it ends. Gives what was started,
    and when it healed."""
    grounds.urls.append(line.url)
    grounds.worker(1)
    starts, running, number = Starts(grounds), deque[str](), 0
    while line.lost < wanted:
        number += 1
        running.append(starts.start("cluster/chain", {"url": effects.url}, key=str(number)))
        if len(running) > AT_ONCE:
            end_of(grounds, running.popleft())
    line.chance, healed_at = 0.0, time.time()
    assert set(ends_of(grounds, starts.accepted)) == {"completed"}
    return starts, healed_at


@pytest.mark.req("WRK-03", "WRK-06")
@pytest.mark.parametrize(
    ("wanted", "chance", "silent"),
    [
        pytest.param(60, 0.3, False, id="some"),
        pytest.param(400, 0.3, False, id="hundreds", marks=pytest.mark.deep),
        pytest.param(20, 0.05, True, id="in silence", marks=pytest.mark.deep),
    ],
)
def test_a_lost_response_costs_no_lease(
    tmp_path: Path, postgres: Postgres, effects: Effects, wanted: int, chance: float, silent: bool
) -> None:
    """Fewer than one in a hundred, to be exact: an answer and the one to its repetition can both be lost too late. In
    silence, only the worker's patience ends a request, after 8 s or, for a long poll, 28: each loss takes that long."""
    with cluster(tmp_path, postgres.url, ttl_s=LEASE_S) as grounds:
        grounds.server()
        grounds.register(CHAIN)
        with LosingLine(grounds.urls[0], chance=chance, silent=silent) as line:
            starts, healed_at = while_answers_are_lost(grounds, effects, line, wanted)

        logs = check(grounds.db, starts.accepted, effects.counts)
        lost, healed_s = lost_leases(logs), max(log[-1].ts for log in logs.values()) - healed_at
        print(f"{line.lost} answers lost, {line.lost_orders} with orders; {lost} leases; {healed_s:.2f} s to heal")
        assert lost <= line.lost // 100
