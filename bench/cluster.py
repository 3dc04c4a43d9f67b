"""The group `cluster`: W1-W4, W6, W9 and W10 over HTTP, with PostgreSQL, NATS, one server and one worker.

Everything is durable as PostgreSQL comes (fsync on). Server, worker, database and the clients share the cores of the
machine, so the processor time of server and worker is printed as well.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from bench import figures
from bench.figures import Row, quantile
from bench.machines import Cluster, Connection, cluster
from bench.playbooks import chain, loop, waiting

T = TypeVar("T")
QUICK = 3
SLOTS = 64
_CALLERS = 32  # connections that submit at the same time
_STARTS_PER_S = 105  # of five steps each
_IDLE_WORKERS = 200
_TURN = {"Noetl-Protocol": "1"}


def measured(repeats: int) -> list[Row]:
    quick = repeats <= QUICK
    with cluster() as made:
        rows = [row("server start, empty store", made.start_server(), None, "s")]
        made.start_worker(SLOTS)
        rows += asyncio.run(_work(made, quick))
        rows += _loaded(made, quick)
        made.stop_workers()
        rows += asyncio.run(_idle(made))
        rows += _waiting(made, quick)
    return rows


def row(what: str, value: float, goal: float | None, unit: str) -> Row:
    return figures.row("cluster", what, value, goal, unit)


def rate(what: str, value: float, goal: float | None, unit: str) -> Row:
    return figures.rate("cluster", what, value, goal, unit)


async def _work(made: Cluster, quick: bool) -> list[Row]:
    few = 2 if quick else 3
    async with Connection(made.url, made.token) as line:
        for text in (*(chain(n, name=f"chain_{n}") for n in (1, 3, 5, 10, 100, 1000)), loop()):
            await line.post("/api/catalog", {"source": text})
        for name in ("chain_1000", *["chain_1"] * 20):  # first plans, caches and specialisations are done by then
            await _ran(line, name)
        rows = await _chains(made, line, few)
        rows += [await _crowd(made, few), await _processor(made, line)]
        rows += await _loops(made, line, few)
        rows += await _latency(line)
    return rows


async def _ran(line: Connection, name: str, payload: dict[str, Any] | None = None) -> float:
    """Seconds from the request to the answer with the end of the execution."""
    began = time.perf_counter()
    view = await line.post("/api/executions", {"path": f"bench/{name}", "payload": payload or {}, "wait": 60})
    while view["status"] == "running":
        await asyncio.sleep(0.05)
        view = await line.get(f"/api/executions/{view['execution_id']}")
    assert view["status"] == "completed", view
    return time.perf_counter() - began


async def _chains(made: Cluster, line: Connection, few: int) -> list[Row]:
    rows = []
    for n in (10, 100, 1000):
        seconds = min([await _ran(line, f"chain_{n}") for _ in range(few if n < 1000 else 1)])
        rows.append(rate(f"W1 chain of {n:,} steps", n / seconds, 450, "steps/s"))
    return rows


async def _processor(made: Cluster, line: Connection) -> Row:
    before = made.busy(made.server, *made.workers)
    for _ in range(3):
        await _ran(line, "chain_100")
    taken = made.busy(made.server, *made.workers) - before
    return row("W1 processor time of a step, server and worker", 1000 * taken / 300, None, "ms")


async def _crowd(made: Cluster, few: int, number: int = 1000) -> Row:
    seconds = min([await submitted(made, number) for _ in range(few)])
    return rate(f"W2 {number:,} executions of 3 steps at once", number / seconds, 400, "exec/s")


async def submitted(made: Cluster, number: int) -> float:
    """Seconds until all of them have ended, by the times in the log."""
    began, left = time.time(), iter(range(number))

    async def submit(line: Connection) -> None:
        for _ in left:
            await line.post("/api/executions", {"path": "bench/chain_3"})

    await _by_many(made, _CALLERS, submit)
    return await asyncio.to_thread(_over, made, "bench/chain_3") - began


def _over(made: Cluster, path: str) -> float:
    """The moment at which the last execution of a playbook ended, once all have."""
    while True:
        open_, last = made.sql(
            "SELECT count(*) FILTER (WHERE finished_at IS NULL), max(finished_at) FROM noetl.execution"
            f" WHERE path = '{path}'"
        ).split("|")
        if open_ == "0":
            return float(last)
        time.sleep(0.1)


async def _by_many(made: Cluster, number: int, work: Callable[[Connection], Awaitable[T]]) -> list[T]:
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(Connection(made.url, made.token)) for _ in range(number)]
        return await asyncio.gather(*map(work, lines))


async def _loops(made: Cluster, line: Connection, few: int) -> list[Row]:
    rows = []
    for n in (1_000, 10_000):
        seconds = min([await _ran(line, "loop", {"items": list(range(n))}) for _ in range(few)])
        rows.append(rate(f"W3 parallel loop of {n:,} items, and a step", n / seconds, 3000, "items/s"))
    rows.append(row("W6 memory of the server (PSS), after loops of 10,000", made.pss_mib(made.server), 200, "MiB"))
    return rows


async def _latency(line: Connection) -> list[Row]:
    taken = [await _ran(line, "chain_1") for _ in range(200)]
    return [
        row("W4 submit to result, one step, warm, p50", 1000 * statistics.median(taken), 8, "ms"),
        row("W4 the same, p99", 1000 * quantile(taken, 0.99), None, "ms"),
    ]


def _loaded(made: Cluster, quick: bool) -> Iterator[Row]:
    seconds = 5 if quick else 60
    began, ended = asyncio.run(_at_a_rate(made, seconds))
    number = _STARTS_PER_S * seconds
    yield rate(f"W9 5-step executions at a fixed rate, {seconds} s", 5 * number / (ended - began), 500, "steps/s")
    p99_s = made.sql(
        "SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY c.ts - s.ts)"
        " FROM noetl.event AS s JOIN noetl.event AS c USING (execution_id, step_run_id)"
        " JOIN noetl.execution AS x USING (execution_id)"
        " WHERE s.event_type = 'step.scheduled' AND c.event_type = 'token.claimed' AND x.path = 'bench/chain_5'"
    )
    yield row("W9 dispatch, p99", 1000 * float(p99_s), 200, "ms")


async def _at_a_rate(made: Cluster, seconds: int) -> tuple[float, float]:
    began, number = time.time(), iter(range(_STARTS_PER_S * seconds))

    async def submit(line: Connection) -> None:
        for one in number:
            if (early := began + one / _STARTS_PER_S - time.time()) > 0:
                await asyncio.sleep(early)
            await line.post("/api/executions", {"path": "bench/chain_5"})

    await _by_many(made, _CALLERS, submit)
    return began, await asyncio.to_thread(_over, made, "bench/chain_5")


async def _idle(made: Cluster, seconds: float = 10.0) -> list[Row]:
    """The cost of workers that only wait, for the server."""
    token, numbers = made.worker_token(), iter(range(_IDLE_WORKERS))

    async def wait(_: Connection) -> None:
        name = f"idle-{next(numbers)}"
        async with Connection(made.url, token) as line:
            worker_id = (await line.post("/api/workers", {"name": name}, _TURN))["worker_id"]
            while True:
                await line.post("/api/orders/turn?wait_s=20", {"worker_id": worker_id, "capacity": 8}, _TURN)

    waiting = asyncio.ensure_future(_by_many(made, _IDLE_WORKERS, wait))
    await asyncio.sleep(5.0)
    before = made.busy(made.server)
    await asyncio.sleep(seconds)
    share = (made.busy(made.server) - before) / seconds
    waiting.cancel()
    await asyncio.wait({waiting})
    return [row(f"W10 {_IDLE_WORKERS} idle workers, share of a core", 100 * share, 10, "%")]


def _waiting(made: Cluster, quick: bool) -> Iterator[Row]:
    """Throughput with many open waits, and the start of a server that has them."""
    made.start_worker(SLOTS)
    number = 1000 if not quick else 300
    empty = _warm_rate(made, number)
    waits = 5_000 if quick else 100_000
    asyncio.run(_open_waits(made, waits))
    made.stop_workers()
    made.stop_server()
    yield row(f"W10 server start with {waits:,} open waits", made.start_server(), 10, "s")
    made.start_worker(SLOTS)
    beside = _warm_rate(made, number)
    yield rate(f"W10 {waits:,} open waits: W2 to that of an empty store", beside / empty, 0.8, "x")


def _warm_rate(made: Cluster, number: int) -> float:
    """Executions per second, the median of three crowds. The first crowd after a start costs a server half as much
    again, with waits or without, so it is not counted: the figure is about the waits."""
    return statistics.median([number / asyncio.run(submitted(made, number)) for _ in range(4)][1:])


async def _open_waits(made: Cluster, number: int) -> None:
    """One waiting execution is started, the others are copies of its rows: as many starts would take minutes, and
    searching among copies costs the same."""
    async with Connection(made.url, made.token) as line:
        await line.post("/api/catalog", {"source": waiting()})
        begun = (await line.post("/api/executions", {"path": "bench/waiting"}))["execution_id"]
    changed = "jsonb_build_object('execution_id', left(o.execution_id, 24) || lpad(to_hex(n), 12, '0'))"
    for table, overriding in {"execution": "", "event": "", "wait": "OVERRIDING USER VALUE"}.items():
        made.sql(
            f"INSERT INTO noetl.{table} {overriding} SELECT (jsonb_populate_record(o, {changed})).*"
            f" FROM noetl.{table} AS o, generate_series(1, {number - 1}) AS n WHERE o.execution_id = '{begun}'"
        )
