"""The group `embedded`: W1-W10 of the performance goals, in one process on SQLite, everything durable.

Tasks run as those of users do: `noop` goes through the worker. Each measurement has a process of its own, and its
figure is the median of a few.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import figures
from bench.cold import cold
from bench.figures import Row

ROOT = Path(__file__).parent.parent
QUICK = 3  # repeats

SERVER = """
import asyncio
ANSWER = b'HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: 8\\r\\n\\r\\n{"n": 1}'
async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\\r\\n\\r\\n")
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def embedded(repeats: int) -> list[Row]:
    few, quick = max(repeats // 3, 2), repeats <= QUICK
    chains, crowd = {n: middle(few, "chain", n) for n in (10, 100, 1000)}, middle(few, "crowd", 1000)
    per_step = {n: found["seconds"] / n for n, found in chains.items()}
    rows = [
        row("limit: one flush of 16 KB to this disk, median", 1000 * flush(), None, "ms"),
        *(rate(f"W1 chain of {n:,} steps", 1 / per_step[n], 1500, "steps/s") for n in per_step),
        row("W1 cost of a step, chain of 1,000 to chain of 100", per_step[1000] / per_step[100], 1.1, "x"),
        row("W1 processor time of a step, chain of 1,000", chains[1000]["busy"], None, "ms"),
        rate("W2 1,000 executions of 3 steps at once, 64 slots", 1000 / crowd["seconds"], 1000, "exec/s"),
        row("W2 processor time of an execution", crowd["busy"], None, "ms"),
        *loops(few, quick),
    ]
    waiting = middle(few, "latency")
    rows += [
        row("W4 submit to result, one step, warm, p50", 1000 * waiting["seconds"], 2.0, "ms"),
        row("W4 the same, p99", 1000 * waiting["p99"], None, "ms"),
        row("W5 cold `noetl run hello.yaml` on a new file", first_run(repeats), 0.40, "s"),
        row("W6 peak memory (PSS), loop of 10,000", middle(1, "memory", 10_000)["pss_mib"], 100, "MiB"),
        row("W7 python task, above a step of W1", above(few, per_step[100], "python", 100), 2.0, "ms"),
    ]
    with server() as url:
        rows.append(row("W8 http task, above a step of W1", above(few, per_step[100], "http", 100, url), 2.0, "ms"))
    return [*rows, *under_load(quick), *with_waits(quick, 1000 / crowd["seconds"]), *cycles(few, quick)]


def under_load(quick: bool) -> Iterator[Row]:
    seconds = 5 if quick else 60
    found = alone("load", seconds)
    yield rate(f"W9 5-step executions at a fixed rate, {seconds} s", found["steps_per_s"], 1000, "steps/s")
    yield row("W9 dispatch, p99", 1000 * found["dispatch_p99"], 50, "ms")


def with_waits(quick: bool, empty: float) -> Iterator[Row]:
    number = 5_000 if quick else 100_000
    found = alone("waits", number)
    yield rate(f"W10 {number:,} open waits: W2 to that of an empty store", 1000 / found["seconds"] / empty, 0.8, "x")
    yield row(f"W10 {number:,} open waits: store opened and first result", found["reopened"], 10, "s")


def loops(few: int, quick: bool) -> Iterator[Row]:
    per_item = {n: middle(few, "loop", n)["seconds"] / n for n in (1_000, 10_000)}
    for n, seconds in per_item.items():
        yield rate(f"W3 parallel loop of {n:,} items, and a step", 1 / seconds, 7000, "items/s")
    if quick:
        return
    largest = middle(1, "loop", 100_000)
    seconds = largest["seconds"] / 100_000
    yield rate("W3 parallel loop of 100,000 items, and a step", 1 / seconds, None, "items/s")
    yield row("W3 cost of an item, 100,000 to 10,000", seconds / per_item[10_000], 1.5, "x")
    yield row("W3 peak memory (RSS), loop of 100,000", largest["rss_mib"], 300, "MiB")


def cycles(few: int, quick: bool) -> Iterator[Row]:
    """A step run must cost the same, however many step runs came before it."""
    many = 1_000 if quick else 10_000
    short, long = middle(few, "cycle", 100)["seconds"] / 100, middle(1, "cycle", many)["seconds"] / many
    yield rate(f"counted cycle of {many:,} step runs", 1 / long, None, "steps/s")
    yield row(f"counted cycle, cost of a step run, {many:,} to 100", long / short, 1.1, "x")


def row(what: str, value: float, goal: float | None, unit: str) -> Row:
    return figures.row("embedded", what, value, goal, unit)


def rate(what: str, value: float, goal: float | None, unit: str) -> Row:
    return figures.rate("embedded", what, value, goal, unit)


def middle(times: int, *workload: object) -> dict[str, float]:
    """The run whose time is the median; of an even number the slower one of the two."""
    runs = sorted((alone(*workload) for _ in range(times)), key=lambda found: found["seconds"])
    return runs[len(runs) // 2]


def above(times: int, plain: float, *workload: object) -> float:
    """Milliseconds a step beyond what a step of W1 takes."""
    return 1000 * (middle(times, *workload)["seconds"] / int(str(workload[1])) - plain)


def alone(*workload: object) -> dict[str, float]:
    """The figures of one workload in a process of its own."""
    command = [sys.executable, "-m", "bench.workload", *map(str, workload)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def flush() -> float:
    """The time of one flush, for which every durable commit waits; on a shared disk it is far more than the 0.26 ms of
    the goals."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(200):
            start = time.perf_counter()
            file.write(b"x" * 16_384)
            file.flush()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def first_run(repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
            taken.append(cold("run", "--db", f"{folder}/cold.db", "examples/hello.yaml"))
    return statistics.median(taken)


@contextmanager
def server() -> Iterator[str]:
    """A server in another process, which answers at once and keeps connections."""
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
    finally:
        process.kill()
        process.wait()
