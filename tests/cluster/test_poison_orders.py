"""A worker dies with several orders in it, and another one: each of these orders may be the cause, and has a worker to
itself until it has ended or killed that one too (reliability.md §3.3).

Leases are long, so that none is lost but by a death; the server's clock is set ahead then, past all of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from noetl.control.claiming.poison_orders import LOSSES
from tests.cluster.checkers import check, lost_leases
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import cluster
from tests.cluster.playbooks import POISON
from tests.cluster.watching import ends_of, has_begun_a_task
from tests.cluster.wrong_clock import WrongClock
from tests.waiting import until

TTL_S = 300.0
CRASH = "worker.before_tool=poison"
INNOCENT = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: innocent, path: cluster/innocent }
workload: { gate: "" }
workflow:
  - step: start
    tool:
      name: wait
      kind: python
      args: { gate: "{{ workload.gate }}" }
      code: |
        import os, time
        while not os.path.exists(gate):
            time.sleep(0.02)
"""


@pytest.mark.timeout(300)
@pytest.mark.req("SRV-08", "WRK-04")
def test_a_victim_of_a_poison_order_is_not_lost_again(tmp_path: Path, effects: Effects) -> None:
    gate, clock = tmp_path / "gate", WrongClock(tmp_path / "clock", 0)
    with cluster(tmp_path, str(tmp_path / "store.db"), ttl_s=TTL_S) as grounds:
        grounds.server(environment=clock.environment)
        grounds.register(INNOCENT, POISON)
        worker = grounds.worker(0, "--concurrency", "8", crash_at=CRASH)
        innocent, killer = Starts(grounds), Starts(grounds)
        for number in range(2):
            one = innocent.start("cluster/innocent", {"gate": str(gate)}, key=f"beside{number}")
            until(partial(has_begun_a_task, grounds, one))
        poison = killer.start("cluster/poison", {"url": effects.url}, key="poison")
        for death in range(1, LOSSES + 1):
            assert worker.died(60), "it has met the poison"
            clock.set(death * 2 * TTL_S)
            worker.start(CRASH, waits=False)
        gate.touch()  # each of them can end now, once it has a worker to itself
        assert worker.died(60), "and so has the poison"
        clock.set((LOSSES + 1) * 2 * TTL_S)
        worker.start()  # one that the poison does not hurt

        assert set(ends_of(grounds, [*innocent.accepted, poison])) == {"completed"}
        logs = check(grounds.db, [*innocent.accepted, poison], effects.counts)
        assert lost_leases(logs[poison]).total() == LOSSES + 1
        assert all(1 <= lost_leases(logs[one]).total() <= LOSSES for one in innocent.accepted)
