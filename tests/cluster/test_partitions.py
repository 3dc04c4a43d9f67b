"""Lines that fall silent in one direction or both, are cut again and again, or are slow: between a worker and its
server, a server and PostgreSQL, a server and NATS (reliability.md §4.2).

One cluster for all of it. Server 1 and worker 1 are behind the lines; server 0 and worker 0 are not, so that there is
always somebody who takes over.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import pytest

from tests.cluster.backends import Nats, Postgres
from tests.cluster.checkers import check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import TTL_S, Cluster, cluster
from tests.cluster.playbooks import CHAIN
from tests.cluster.watching import ends_of
from tests.servers.proxy import BACK, BOTH, THERE, Proxy
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)
SILENT_S = TTL_S + 1  # past every lease
PAUSE_S, LEAST = 0.1, 8


class Lines(msgspec.Struct):
    worker: Proxy
    postgres: Proxy
    nats: Proxy

    @property
    def all(self) -> tuple[Proxy, ...]:
        return (self.worker, self.postgres, self.nats)


class Site(msgspec.Struct):
    grounds: Cluster
    lines: Lines


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, one_postgres: Postgres) -> Iterator[Site]:
    one_postgres.renew()
    broker = Nats()
    with ExitStack() as stack:
        stack.callback(broker.stop)
        grounds = stack.enter_context(cluster(tmp_path_factory.mktemp("partitions"), one_postgres.url, nats=broker.url))
        to_postgres = stack.enter_context(Proxy(f"{one_postgres.socket}/.s.PGSQL.5432"))
        to_nats = stack.enter_context(Proxy("127.0.0.1", int(broker.url.rpartition(":")[2])))
        grounds.server()
        grounds.register(CHAIN)
        grounds.worker(0)
        grounds.server(
            db=f"postgresql://postgres@127.0.0.1:{to_postgres.port}/{one_postgres.database}",
            nats=f"nats://127.0.0.1:{to_nats.port}",
        )
        to_server = stack.enter_context(Proxy("127.0.0.1", int(grounds.urls[1].rpartition(":")[2])))
        direct, grounds.urls[1] = grounds.urls[1], f"http://127.0.0.1:{to_server.port}"
        grounds.worker(1)
        grounds.urls[1] = direct
        yield Site(grounds, Lines(to_server, to_postgres, to_nats))


@contextmanager
def _slow(lines: Lines, *, delay_s: float = 0.0, rate: int | None = None) -> Iterator[None]:
    for line in lines.all:
        line.delay_s, line.rate = delay_s, rate
    try:
        yield
    finally:
        for line in lines.all:
            line.delay_s, line.rate = 0.0, None


def _silent(line: str, *directions: str) -> Callable[[Lines], None]:
    def befall(lines: Lines) -> None:
        with getattr(lines, line).silent(*directions):
            time.sleep(SILENT_S)

    return befall


def _flapping(line: str) -> Callable[[Lines], None]:
    return lambda lines: getattr(lines, line).flap(SILENT_S)


FAULTS: dict[str, Callable[[Lines], None]] = {
    "worker, requests lost": _silent("worker", THERE),
    "worker, answers lost": _silent("worker", BACK),
    "worker, both": _silent("worker", *BOTH),
    "worker, flapping": _flapping("worker"),
    "postgres, requests lost": _silent("postgres", THERE),
    "postgres, answers lost": _silent("postgres", BACK),
    "postgres, both": _silent("postgres", *BOTH),
    "postgres, flapping": _flapping("postgres"),
    "nats, both": _silent("nats", *BOTH),
    "nats, answers lost": _silent("nats", BACK),
    "nats, flapping": _flapping("nats"),
}
QUICK = {"worker, answers lost", "postgres, both", "postgres, flapping", "nats, both"}


@contextmanager
def _load(site: Site, effects: Effects, name: str) -> Iterator[Starts]:
    """Executions are started at both servers for as long as the block lasts, one after another."""
    starts, over = Starts(site.grounds), threading.Event()

    def go_on(server: int) -> None:
        for number in itertools.count():
            if over.is_set():
                return
            starts.start("cluster/chain", {"url": effects.url}, key=f"{name}/{server}/{number}", first=server)
            time.sleep(PAUSE_S)

    with ThreadPoolExecutor(2) as pool:
        loading = [pool.submit(go_on, server) for server in range(2)]
        try:
            yield starts
        finally:
            over.set()
    for one in loading:
        one.result()


def _all_is_well(site: Site, starts: Starts, effects: Effects) -> None:
    assert set(ends_of(site.grounds, starts.accepted)) == {"completed"}
    check(site.grounds.db, starts.accepted, effects.counts)
    assert all(member.is_alive for member in (*site.grounds.servers, *site.grounds.workers)), "nobody has given up"


@pytest.mark.req("WRK-03", "WRK-04", "SRV-12")
@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.deep) for one in FAULTS])
def test_a_silent_or_closed_connection_breaks_no_promise(site: Site, effects: Effects, name: str) -> None:
    with _load(site, effects, name) as starts:
        time.sleep(PAUSE_S)
        FAULTS[name](site.lines)
        until(lambda: len(starts.accepted) >= LEAST)
    _all_is_well(site, starts, effects)


@pytest.mark.deep
@pytest.mark.req("WRK-03", "SRV-12")
@pytest.mark.parametrize(
    ("name", "slowness"),
    [("100 ms", {"delay_s": 0.1}), ("1 s", {"delay_s": 1.0}), ("a slow reader", {"rate": 20_000})],
)
def test_slow_connections_delay_everything_and_break_nothing(
    site: Site, effects: Effects, name: str, slowness: dict[str, Any]
) -> None:
    with _slow(site.lines, **slowness):
        with _load(site, effects, name) as starts:
            until(lambda: len(starts.accepted) >= LEAST)
        _all_is_well(site, starts, effects)
    assert all(line.carried for line in site.lines.all), "they were used"
