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
from tests.cluster.machines import Cluster, Member, backends, cluster, until
from tests.cluster.playbooks import CHAIN
from tests.cluster.watching import NOT_FOR_OPERATORS, OUTAGES, ends_of, lines_of

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
    victim.kill()
    until(lambda: has_written(witness, lost), what=f"nobody wrote: {lost}")
    victim.start()
    until(lambda: has_written(witness, back), what=f"nobody wrote: {back}")


@pytest.mark.req("SRV-12")
def test_an_outage_is_one_line_when_something_is_lost_and_one_when_it_is_back(tmp_path: Path) -> None:
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
            for text in (*STORE, *BROKER):
                assert sum(text in line for line in lines_of(server)) == 1, text
            # What was done in the moment of the loss, and could not be written to the audit log, is told once each.
            of_server = [line for line in lines_of(server) if '"event": "audit"' not in line]
            of_outages = [line for line in of_server if any(one in line for one in OUTAGES)]
            assert len(of_outages) == 4, of_outages
            lost, back = ([line for line in lines_of(worker) if text in line] for text in SERVER)
            assert len(lost) == len(back) <= 2, "one for the server; one more where the store was away for long"
