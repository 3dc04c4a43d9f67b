"""One workload of the group `embedded`, measured in a process of its own; prints one line of JSON.

`python -m bench.workload chain 100`: everything is durable, in a SQLite file that is new each time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.figures import quantile
from bench.playbooks import NOOP, PYTHON, chain, cycle, loop
from bench.waits import fill
from noetl.operations.embedded import Driver, compiled, driving

Figures = dict[str, float]
_ROUNDS_OF_LATENCY = 200
_SLOTS_OF_A_CROWD = 64
_STARTS_PER_S = 210  # of five steps each: a little more than the goal, since the last ones end after the last start


async def once(db: Path, text: str, items: int = 0, task: str = NOOP) -> Figures:
    """Seconds from submission to the result, of a playbook compiled before."""
    net, payload = compiled(text), {"items": list(range(items))} if items else None
    async with driving(db) as driver:
        await warm(driver, task)
        start, busy = time.perf_counter(), time.process_time()
        result = await driver.run(net, payload)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    assert result.ok, result
    return {"seconds": seconds, "busy": busy, "events": result.events}


async def warm(driver: Driver, task: str = NOOP) -> None:
    """What is imported and opened the first time is done."""
    for _ in range(20):
        assert (await driver.run(compiled(chain(1, task)))).ok


async def tasks(db: Path, size: int, task: str) -> Figures:
    return await once(db, chain(size, task), task=task)


async def crowd(db: Path, number: int) -> Figures:
    """`number` executions of three steps, submitted at once; a crowd is given more slots than one run needs."""
    net = compiled(chain(3))
    async with driving(db, slots=_SLOTS_OF_A_CROWD) as driver:
        await warm(driver)
        start, busy = time.perf_counter(), time.process_time()
        results = await asyncio.gather(*(driver.run(net) for _ in range(number)))
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    assert all(result.ok for result in results)
    return {"seconds": seconds, "busy": busy}


async def latency(db: Path) -> Figures:
    net = compiled(chain(1))
    taken = []
    async with driving(db) as driver:
        await warm(driver)
        for _ in range(_ROUNDS_OF_LATENCY):
            start = time.perf_counter()
            await driver.run(net)
            taken.append(time.perf_counter() - start)
    return {"seconds": statistics.median(taken), "p99": quantile(taken, 0.99)}


async def load(db: Path, seconds: int) -> Figures:
    """Executions of five steps that begin at a fixed rate. Dispatch: from an order being ready to its being claimed."""
    net = compiled(chain(5))
    async with driving(db, slots=_SLOTS_OF_A_CROWD) as driver:
        await warm(driver)
        began, running = time.perf_counter(), []
        for number in range(_STARTS_PER_S * seconds):
            if (early := began + number / _STARTS_PER_S - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            running.append(asyncio.create_task(driver.run(net)))
        results = await asyncio.gather(*running)
        taken = time.perf_counter() - began
    assert all(result.ok for result in results)
    return {"seconds": taken, "steps_per_s": 5 * len(results) / taken, "dispatch_p99": quantile(dispatched(db), 0.99)}


def dispatched(db: Path) -> list[float]:
    """How long each order was ready before a worker had it."""
    times: dict[str, dict[tuple[str, str], float]] = {"step.scheduled": {}, "token.claimed": {}}
    with closing(sqlite3.connect(db)) as log:
        for event_type, execution_id, step_run_id, ts in log.execute(
            "SELECT event_type, execution_id, step_run_id, ts FROM event"
            " WHERE event_type IN ('step.scheduled', 'token.claimed')"
        ):
            times[event_type][execution_id, step_run_id] = ts
    return [ts - times["step.scheduled"][order] for order, ts in times["token.claimed"].items()]


async def beside_waits(db: Path, open_waits: int) -> Figures:
    """The crowd, in a store that holds `open_waits` executions which wait; and how long it takes to open that store
    and run something."""
    await fill(db, open_waits)
    began = time.perf_counter()
    async with driving(db) as driver:
        assert (await driver.run(compiled(chain(1)))).ok
    reopened = time.perf_counter() - began
    return {**await crowd(db, 1_000), "reopened": reopened}


async def memory(db: Path, items: int) -> Figures:
    """The loop again, with its memory looked at while it runs (PSS: what is shared counts in part)."""
    peaks = [pss_mib()]
    beside = asyncio.create_task(_watch(peaks))
    figures = await once(db, loop(), items)
    beside.cancel()
    return {**figures, "pss_mib": max(peaks)}


async def _watch(peaks: list[float]) -> None:
    while True:
        peaks.append(pss_mib())
        await asyncio.sleep(0.02)


def pss_mib() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measured(db: Path, what: str, *more: str) -> Awaitable[Figures]:
    size = int(more[0]) if more else 0
    workloads: dict[str, Callable[[], Awaitable[Figures]]] = {
        "chain": lambda: tasks(db, size, NOOP),
        "python": lambda: tasks(db, size, PYTHON),
        "http": lambda: tasks(db, size, f'kind: http, url: "{more[1]}"'),
        "loop": lambda: once(db, loop(), size),
        "cycle": lambda: once(db, cycle(size)),
        "memory": lambda: memory(db, size),
        "crowd": lambda: crowd(db, size),
        "latency": lambda: latency(db),
        "load": lambda: load(db, size),
        "waits": lambda: beside_waits(db, size),
    }
    return workloads[what]()


async def main(*arguments: str) -> None:
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        figures: dict[str, Any] = await measured(Path(folder) / "bench.db", *arguments)
    figures["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures["gc"] = gc.get_stats()[2]["collections"]
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
