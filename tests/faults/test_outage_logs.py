"""What servers and workers write while PostgreSQL, the broker or a server is away: one line when it is lost, one when
it is back, and no traceback of a driver. All of them are real processes, and work is started all the time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.backends import Nats, Postgres
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, Member, backends, cluster
from tests.cluster.playbooks import CHAIN
from tests.cluster.watching import NOT_FOR_OPERATORS, OUTAGES, ends_of, lines_of
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

STORE = "cannot be reached", "is reached again"
BROKER = "wake-ups are not exchanged", "wake-ups are exchanged with other processes again"
SERVER = "does not answer", "answers again"


def has_written(member: Member, text: str, times: int = 1) -> bool:
    return sum(text in line for line in lines_of(member)) >= times


@contextmanager
def load(grounds: Cluster, effects: Effects) -> Iterator[Starts]:
    """Executions are started until the block ends; all that were accepted end well."""
    starts, is_over = Starts(grounds), threading.Event()

    def start_some(caller: int) -> None:
        number = 0
        while not is_over.wait(0.05):
            number += 1
            starts.start("cluster/chain", {"url": effects.url}, key=f"{caller}/{number}")

    callers = [threading.Thread(target=start_some, args=(caller,)) for caller in range(2)]
    for caller in callers:
        caller.start()
    try:
        yield starts
    finally:
        is_over.set()
        for caller in callers:
            caller.join()
    assert set(ends_of(grounds, starts.accepted)) == {"completed"}


def lose_and_restore(victim: Postgres | Nats, witness: Member, lost: str, back: str) -> None:
    before = len(told(witness, lost, back)) // 2  # a machine that stands still for seconds loses a broker too
    victim.kill()
    until(lambda: has_written(witness, lost, before + 1), what=f"nobody wrote: {lost}")
    victim.start()
    until(lambda: has_written(witness, back, before + 1), what=f"nobody wrote: {back}")


def told(member: Member, lost: str, back: str) -> list[str]:
    """Which of the two was written, in order."""
    return [text for line in lines_of(member) for text in (lost, back) if text in line]


@pytest.mark.req("SRV-12")
def test_an_outage_is_logged_once_at_its_start_and_once_at_its_end(tmp_path: Path) -> None:
    with backends(broker=True) as (postgres, broker), Effects() as effects:
        assert broker is not None
        with cluster(tmp_path, postgres.url, nats=broker.url) as grounds:
            server = grounds.server("--workers-in-process", "2", "--allow-address", "127.0.0.1")
            grounds.register(CHAIN)
            worker = grounds.worker()
            with load(grounds, effects) as starts:
                until(lambda: len(starts.accepted) >= 5)
                lose_and_restore(postgres, server, *STORE)
                lose_and_restore(broker, server, *BROKER)
                before = len([line for line in lines_of(worker) if SERVER[1] in line])
                server.kill()
                until(lambda: has_written(worker, SERVER[0], before + 1))
                server.start()
                until(lambda: has_written(worker, SERVER[1], before + 1))
            worker.stop()
            server.stop()

            written = [*lines_of(server), *lines_of(worker)]
            assert [line for line in written if any(one in line for one in NOT_FOR_OPERATORS)] == []
            outages = [told(server, *texts) for texts in (STORE, BROKER)]
            for found, (lost, back) in zip(outages, (STORE, BROKER), strict=True):
                assert found == [lost, back] * max(1, len(found) // 2)
            # What was done in the moment of the loss, and could not be written to the audit log, is told once each.
            of_server = [line for line in lines_of(server) if '"event": "audit"' not in line]
            of_outages = [line for line in of_server if any(one in line for one in OUTAGES)]
            assert len(of_outages) == sum(len(found) for found in outages), of_outages
            assert (of_worker := told(worker, *SERVER)) == [*SERVER] * max(1, len(of_worker) // 2)
