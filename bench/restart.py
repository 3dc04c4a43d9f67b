"""The start of a server, and its restart while much is open (P9): seconds until a new execution has ended.

Executions that wait for a message which nobody sends are started over HTTP by many callers; then the server is killed
and started again.
"""

from __future__ import annotations

import asyncio
import time

from bench.figures import Row, row
from bench.machines import Cluster, Connection, cluster
from bench.playbooks import chain, waiting

GROUP = "restart"
QUICK, OPEN_QUICK, OPEN = 3, 1_000, 10_000
CALLERS = 16


def measured(repeats: int) -> list[Row]:
    number = OPEN_QUICK if repeats <= QUICK else OPEN
    with cluster() as made:
        made.start_server()
        starts_s = [_processor_s_of_a_start(made) for _ in range(min(repeats, 5))]
        made.start_worker(4)
        asyncio.run(_open(made, number))
        assert made.server is not None
        made.server.kill()
        made.server.wait()
        began = time.perf_counter()
        made.start_server()
        asyncio.run(_run_one(made))
        back_s = time.perf_counter() - began
    return [
        row(
            GROUP, "start of a server, processor time until it listens", sorted(starts_s)[len(starts_s) // 2], 1.5, "s"
        ),
        row(GROUP, f"P9 a server is killed with {number:,} open executions: a new one has ended", back_s, 10, "s"),
    ]


def _processor_s_of_a_start(made: Cluster) -> float:
    made.stop_server()
    made.start_server()
    return made.busy(made.server)


async def _open(made: Cluster, number: int) -> None:
    numbers = iter(range(number))

    async def call() -> None:
        async with Connection(made.url, made.token) as line:
            for _ in numbers:
                await line.post("/api/executions", {"path": "bench/waiting", "payload": {}})

    async with Connection(made.url, made.token) as line:
        for text in (waiting(), chain(1, name="chain_1")):
            await line.post("/api/catalog", {"source": text})
    await asyncio.gather(*(call() for _ in range(CALLERS)))


async def _run_one(made: Cluster) -> None:
    async with Connection(made.url, made.token) as line:
        view = await line.post("/api/executions", {"path": "bench/chain_1", "payload": {}, "wait": 60})
    if view["status"] != "completed":
        raise RuntimeError(f"the execution after the restart is {view['status']}")
