"""The group `promises`: what reliability promises in figures, measured at a running server (reliability.md §4.1).

P8: other executions are as fast beside a bad one, compared at the 99th percentile. P9: a killed worker's order is taken
again. P10: a cancelled tool ends. P12: memory, connections and rows stay bounded while executions come and go. Whoever
calls says where the server is and how to look at it, so that a test can measure a small one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import figures
from bench.figures import Row, quantile
from bench.machines import Cluster, Connection, cluster
from bench.playbooks import chain, cycle, loop, slow, wasteful

QUICK = 3
SLOTS = 16
TTL_S, HEARTBEAT_S = 3.0, 0.5  # the promise is about the time after a lease ends, so a short lease shows as much
ONE = "bench/chain_1"
PLAYBOOKS = (chain(1, name="chain_1"), loop(), cycle(5_000), wasteful(), slow())
_CALLERS = 4
_LOOK_S = 0.02


@dataclass(frozen=True)
class Server:
    url: str
    token: str


@dataclass(frozen=True)
class Sample:
    """`connections` are those of the store, `open_rows` what it keeps of executions only while they are open."""

    memory_mib: float
    connections: float
    store_mib: float
    open_rows: float


def measured(repeats: int) -> list[Row]:
    quick = repeats <= QUICK
    with cluster() as made:
        made.settings = {"NOETL_LEASE_TTL": str(TTL_S), "NOETL_HEARTBEAT": str(HEARTBEAT_S)}
        made.start_server()
        made.start_worker(SLOTS)
        server = Server(made.url, made.token)
        asyncio.run(register(server))
        rows = asyncio.run(others(server, number=100 if quick else 1_000))
        number = 200 if quick else 2_000
        rows += asyncio.run(bounded(server, lambda: _sample(made), number=number, rounds=3 if quick else 10))
        made.start_worker(SLOTS)
        rows += asyncio.run(recovery(server, {one.pid: one.kill for one in made.workers}, made.folder, ttl_s=TTL_S))
    return rows


def row(what: str, value: float, goal: float | None, unit: str) -> Row:
    return figures.row("promises", what, value, goal, unit)


async def register(server: Server) -> None:
    async with Connection(server.url, server.token) as line:
        for text in PLAYBOOKS:
            await line.post("/api/catalog", {"source": text})


# P8


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "a loop of 5,000 items": ("bench/loop", {"items": list(range(5_000))}),
    "a step that goes round and round": ("bench/cycle", {}),
    "templates that waste time": ("bench/wasteful", {}),
}


async def others(server: Server, *, number: int) -> list[Row]:
    """How long executions of one step take, alone and beside each kind of bad one, which is begun again and again."""
    await latencies(server, number // 4)  # what is planned and cached first is by now
    alone = quantile(await latencies(server, number), 0.99)
    rows = [row(f"P8 submit to result, {number:,} executions, p99", 1000 * alone, None, "ms")]
    for name, (path, payload) in BAD.items():
        bad = _Bad(server, path, payload)
        beside = asyncio.create_task(bad.again_and_again())
        await asyncio.wait({beside, asyncio.ensure_future(bad.begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        taken = quantile(await latencies(server, number), 0.99)
        bad.enough.set()
        await beside
        rows.append(row(f"P8 the same beside {name}", taken / alone, 2, "x"))
    return rows


async def latencies(server: Server, number: int) -> list[float]:
    """Seconds from asking to the answer with its end, of each of so many, a few at a time."""
    left, taken = iter(range(number)), list[float]()

    async def ask(line: Connection) -> None:
        for _ in left:
            began = time.perf_counter()
            await _over(line, await _begun(line, ONE, {}, wait_s=60))
            taken.append(time.perf_counter() - began)

    await by_many(server, _CALLERS, ask)
    return taken


class _Bad:
    """One bad execution after another, from when `begun` is set until somebody has `enough`; nothing is left then."""

    def __init__(self, server: Server, path: str, payload: dict[str, Any]) -> None:
        self._server, self._path, self._payload = server, path, payload
        self.begun, self.enough = asyncio.Event(), asyncio.Event()

    async def again_and_again(self) -> None:
        async with Connection(self._server.url, self._server.token) as line:
            while not self.enough.is_set():
                view = await _begun(line, self._path, self._payload)
                self.begun.set()
                while view["status"] == "running" and not self.enough.is_set():
                    await asyncio.sleep(_LOOK_S)
                    view = await line.get(f"/api/executions/{view['execution_id']}")
            if view["status"] == "running":
                with suppress(RuntimeError):  # it has ended meanwhile
                    await line.post(f"/api/executions/{view['execution_id']}/cancel", {})
                await _over(line, view)


# P12


async def bounded(server: Server, sample: Callable[[], Sample], *, number: int, rounds: int) -> list[Row]:
    """Rounds of so many executions, looked at while they run and once each round is over. What the first one brings
    (caches, pools, statements) is no growth."""
    after: list[Sample] = []
    while_running: list[Sample] = []
    for _ in range(rounds):
        working = asyncio.create_task(latencies(server, number))
        while not working.done():
            while_running.append(await asyncio.to_thread(sample))
            await asyncio.wait({working}, timeout=0.2)
        await working
        after.append(await asyncio.to_thread(sample))
    each = 1_000 / (number * (rounds - 1))
    grown = (after[-1].memory_mib - after[0].memory_mib) * each
    kept = (after[-1].store_mib - after[0].store_mib) * each
    return [
        row("P12 memory of the server (PSS), highest", max(one.memory_mib for one in while_running), 200, "MiB"),
        row("P12 the same, growth with each 1,000 executions", max(grown, 0.0), None, "MiB"),
        row("P12 connections to the store, most", max(one.connections for one in while_running), 16, ""),
        row("P12 the store, growth with each 1,000 executions", kept, None, "MiB"),
        row("P12 rows of what is open, when nothing is", max(one.open_rows for one in after), None, "rows"),
    ]


def _sample(made: Cluster) -> Sample:
    count = " + ".join(f"(SELECT count(*) FROM noetl.{name})" for name in ("orders", "wait", "request"))
    rows = made.sql(
        "SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) - 1,"
        " (SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables) / 1048576.0,"
        f" {count}"
    )
    connections, store_mib, open_rows = map(float, rows.split("|"))
    return Sample(made.pss_mib(made.server), connections, store_mib, open_rows)


# P9 and P10


async def recovery(
    server: Server, workers: Mapping[int, Callable[[], object]], folder: Path, *, ttl_s: float
) -> list[Row]:
    """A slow task; its worker is killed, another takes it up; then it is cancelled. `workers` by their ids, with what
    kills each. The tool writes the ids of its own process and of its worker into `folder`."""
    async with Connection(server.url, server.token) as line:
        view = await _begun(line, "bench/slow", {"folder": str(folder)})
        _, first = await _seen(folder, lambda worker: worker in workers)
        began = time.perf_counter()
        workers[first]()
        tool, _ = await _seen(folder, lambda worker: worker in workers and worker != first)
        retaken = time.perf_counter() - began
        await line.post(f"/api/executions/{view['execution_id']}/cancel", {})
        began = time.perf_counter()
        await _until(lambda: not _lives(tool))
        stopped = time.perf_counter() - began
        await _over(line, view)
    return [
        row("P9 a worker is killed: its task runs again, past its lease", max(retaken - ttl_s, 0.0), 5, "s"),
        row("P10 an execution is cancelled: its tool has ended", stopped, HEARTBEAT_S + 5, "s"),
    ]


async def _seen(folder: Path, fits: Callable[[int], bool]) -> tuple[int, int]:
    """The process of the tool that was begun last, and its worker's."""
    path, found = folder / "tool", list[tuple[int, int]]()

    def look() -> bool:
        with suppress(FileNotFoundError, ValueError):
            tool, *above = map(int, path.read_text().split())
            found.extend((tool, worker) for worker in above if fits(worker))
        return bool(found)

    await _until(look)
    return found[-1]


def _lives(pid: int) -> bool:
    """A zombie process counts as gone."""
    try:
        os.kill(pid, 0)
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


async def _until(look: Callable[[], bool], limit_s: float = 120.0) -> None:
    async with asyncio.timeout(limit_s):
        while not look():
            await asyncio.sleep(_LOOK_S)


# asking


async def _begun(line: Connection, path: str, payload: dict[str, Any], *, wait_s: int = 0) -> Any:
    asked = {"path": path, "payload": payload, **({"wait": wait_s} if wait_s else {})}
    return await line.post("/api/executions", asked)


async def _over(line: Connection, view: Any) -> None:
    while view["status"] == "running":
        await asyncio.sleep(_LOOK_S)
        view = await line.get(f"/api/executions/{view['execution_id']}")


async def by_many(server: Server, number: int, work: Callable[[Connection], Awaitable[None]]) -> Sequence[None]:
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(Connection(server.url, server.token)) for _ in range(number)]
        return await asyncio.gather(*map(work, lines))
