"""The measurement of the promises (bench/promises.py) works, on a small server and with few executions. The figures are
not compared: a busy machine gives any."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench import promises
from bench.figures import Row
from bench.promises import BAD, Sample, Server
from tests.cluster.machines import TTL_S, Cluster, cluster

pytestmark = pytest.mark.timeout(300)
FEW = 12


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server on a file, with two workers."""
    folder = tmp_path_factory.mktemp("promises")
    with cluster(folder, str(folder / "store.db")) as made:
        made.server()
        made.worker()
        made.worker()
        yield made


@pytest.fixture(scope="module")
def server(grounds: Cluster) -> Server:
    made = Server(grounds.urls[0], (grounds.folder / "token").read_text().strip())
    asyncio.run(promises.register(made))
    return made


def _values(rows: list[Row]) -> dict[str, float]:
    assert all(row["group"] == "promises" and row["unit"] is not None for row in rows)
    return {row["what"]: row["value"] for row in rows}


def test_the_benchmark_measures_others_next_to_each_kind_of_bad_execution(grounds: Cluster, server: Server) -> None:
    figures = _values(asyncio.run(promises.others(server, number=FEW)))

    assert len(figures) == 1 + len(BAD)
    assert all(value > 0 for value in figures.values())
    with closing(sqlite3.connect(grounds.db)) as file:
        ends = file.execute("SELECT path, status, count(*) FROM execution GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
    counts = {(path, status): number for path, status, number in ends}
    assert counts["bench/chain_1", "completed"] == FEW // 4 + FEW * (1 + len(BAD))
    assert {path for path, _ in counts} == {"bench/chain_1", *(path for path, _ in BAD.values())}, "each was there"
    assert not any(status == "running" for _, status in counts), "and nothing of it is left"


def test_the_benchmark_measures_growth_while_executions_come_and_go(grounds: Cluster, server: Server) -> None:
    taken: list[Sample] = []

    def sample() -> Sample:
        taken.append(Sample(100.0 + len(taken), 3.0, 1.0 * len(taken), 0.0))
        return taken[-1]

    figures = _values(asyncio.run(promises.bounded(server, sample, number=FEW, rounds=2)))

    assert figures["P12 connections to the store, most"] == 3
    assert figures["P12 memory of the server (PSS), highest"] <= taken[-1].memory_mib
    assert figures["P12 the same, growth with each 1,000 executions"] > 0
    assert figures["P12 rows of what is open, when nothing is"] == 0


def test_the_benchmark_times_a_killed_worker_and_a_cancelled_tool(
    grounds: Cluster, server: Server, tmp_path: Path
) -> None:
    workers = {worker.child.pid: worker.kill for worker in grounds.workers if worker.child is not None}

    figures = _values(asyncio.run(promises.recovery(server, workers, tmp_path, ttl_s=TTL_S)))

    assert sorted(figures) == [
        "P10 an execution is cancelled: its tool has ended",
        "P9 a worker is killed: its task runs again, past its lease",
    ]
    assert sum(worker.is_alive for worker in grounds.workers) == 1
