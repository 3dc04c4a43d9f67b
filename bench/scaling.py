"""`python -m bench.scaling`: rows, bytes and time that a step costs one PostgreSQL, for docs/scaling.md.

Real commits are recorded from executions in memory and stored again, so many executions to a commit. What the engine
takes is not in the figures of the database.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.capacity import Costs, Installation, Simulation, steps_per_s  # noqa: E402
from bench.cluster import SLOTS, submitted  # noqa: E402
from bench.machines import Cluster, Connection, cluster  # noqa: E402
from bench.playbooks import chain  # noqa: E402
from noetl.operations.embedded import compiled, driving  # noqa: E402
from noetl.store.contract import Commit  # noqa: E402
from noetl.store.open_store import open_store  # noqa: E402

CROWD, STEPS = 128, 10
BATCHES = (1, 2, 4, 8, 16, 32, 64)


async def recorded(slots: int = CROWD // 2) -> list[list[Commit]]:
    """The commits of each of a crowd of executions. With as many slots as executions, an order is claimed in the commit
    that makes it; with fewer, most orders wait and are claimed in a commit of their own."""
    commits: dict[str, list[Commit]] = {}

    def keep(stored: Sequence[Commit]) -> None:
        for one in stored:
            commits.setdefault(one.execution.execution_id, []).append(one)

    net = compiled(chain(STEPS))
    async with driving(":memory:", stored=(keep,), slots=slots) as driver:
        await asyncio.gather(*(driver.run(net) for _ in range(CROWD)))
    return list(commits.values())


async def decided(made: Cluster) -> float:
    """Seconds of its core that a server takes for a step, HTTP and all, once it is warm."""
    async with Connection(made.url, made.token) as line:
        await line.post("/api/catalog", {"source": chain(3, name="chain_3")})
    await submitted(made, 500)
    before = made.busy(made.server)
    await submitted(made, 1000)
    return (made.busy(made.server) - before) / 3000


async def stored(database: str, executions: list[list[Commit]], batch: int) -> float:
    """Seconds a step, in commits of `batch` executions each."""
    store, _ = await open_store(database)
    try:
        begun = time.perf_counter()
        for number in range(max(map(len, executions))):
            due = [one[number] for one in executions if number < len(one)]
            for first in range(0, len(due), batch):
                await store.commit(due[first : first + batch])
        return (time.perf_counter() - begun) / (CROWD * STEPS)
    finally:
        await store.close()


def counts(made: Cluster) -> dict[str, float]:
    made.sql("SELECT pg_stat_force_next_flush()")
    time.sleep(1.2)  # the statistics of other sessions come once a second
    rows = made.sql("SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables")
    wal = made.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
    size = made.sql("SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_stat_user_tables")
    return {"rows": float(rows), "wal": float(wal), "bytes": float(size)}


def line(seconds: dict[int, float]) -> tuple[float, float]:
    """`flush_s` and `write_s` by least squares: a commit of B steps takes flush_s + B * write_s."""
    points = [(batch, each * batch) for batch, each in seconds.items()]
    mean_x, mean_y = (sum(one[axis] for one in points) / len(points) for axis in (0, 1))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return max(mean_y - slope * mean_x, 0.0), slope


def main() -> None:
    seconds: dict[int, float] = {}
    with cluster() as made:
        made.start_server()
        made.start_worker(SLOTS)
        decide_s = asyncio.run(decided(made))
        made.stop_workers()
        made.stop_server()
        asyncio.run(stored(made.database, asyncio.run(recorded()), 64))  # tables and caches are warm
        for slots in (CROWD // 2, CROWD):
            before = counts(made)
            for batch in BATCHES:
                seconds[batch] = asyncio.run(stored(made.database, asyncio.run(recorded(slots)), batch))
            after, steps = counts(made), len(BATCHES) * CROWD * STEPS
            each = {name: (after[name] - before[name]) / steps for name in before}
            print(
                f"a step, {CROWD} executions and {slots} slots: {each['rows']:.1f} rows written,"
                f" {each['bytes']:.0f} bytes kept, {each['wal']:.0f} bytes of log"
            )
    for batch, one in seconds.items():
        print(f"  {batch:3} steps to a commit: {1 / one:8.0f} steps/s, {1000 * one * batch:7.2f} ms a commit")
    flush_s, write_s = line(seconds)
    costs = Costs(decide_s=decide_s, write_s=write_s, flush_s=flush_s)
    print(
        f"a commit: {1000 * flush_s:.2f} ms, and {1e6 * write_s:.0f} us a step; deciding {1e6 * decide_s:.0f} us a step"
    )
    for servers in (1, 2, 4, 8, 16, 32):
        place = Installation(servers=servers, database_cores=8)
        expected, played = steps_per_s(costs, place), Simulation(costs, place, crowd=servers * 256).run(until_s=20.0)
        print(f"  {servers:2} servers, 8 cores of database: {expected:8.0f} steps/s, simulated {played:8.0f}")


if __name__ == "__main__":
    main()
