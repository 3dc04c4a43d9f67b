"""`make bench ARGS=--peers`: ours, Restate and DBOS in turn, medians, and how many times faster ours is.

They take turns within each round, so that whatever else the machine does falls on all of them alike.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from bench import figures
from bench.embedded import alone
from bench.figures import Row
from bench.peers.environments import ROOT, Environment, environment

HERE = Path(__file__).parent
PEERS = ("dbos", "restate")  # those with a script here; dlt has an environment too, but moves rows only
TIMEOUT_S = 300
ROUNDS = 3
# workload, its size, the size for DBOS where ours takes it minutes, what is counted, the goal against Restate
WORKLOADS = (
    ("chain", 100, 100, "steps/s", None),
    ("chain", 1000, 1000, "steps/s", 3.5),
    ("crowd", 1000, 300, "exec/s", 3.0),
    ("loop", 1000, 1000, "items/s", None),
    ("latency", 200, 100, "ms", None),
)
TITLES = {
    "chain": "chain of {size:,} steps",
    "crowd": "{size:,} executions of 3 steps at once",
    "loop": "loop of {size:,} items",
    "latency": "one step, warm, p50",
}


def compared(repeats: int) -> list[Row]:
    """Medians of each, and the ratios to ours."""
    peers = _installed()
    taken: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for _ in range(min(repeats, ROUNDS)):
        for name, size, dbos_size, _, _ in WORKLOADS:
            taken[name, size, "NoETL"].append(_figure(name, size, _ours(name, size)))
            for peer, place in peers.items():
                number = dbos_size if peer == "dbos" else size
                taken[name, size, peer].append(_figure(name, number, _theirs(peer, place, name, number)))
    medians = {key: statistics.median(values) for key, values in taken.items()}
    return [row for workload in WORKLOADS for row in _rows(workload, medians, tuple(peers))]


def _rows(
    workload: tuple[str, int, int, str, float | None],
    medians: dict[tuple[str, int, str], float],
    peers: tuple[str, ...],
) -> list[Row]:
    name, size, _, unit, goal = workload
    title = TITLES[name].format(size=size)
    ours = medians[name, size, "NoETL"]
    make = figures.row if name == "latency" else figures.rate
    rows = [make("peers", f"{title}: {who}", medians[name, size, who], None, unit) for who in ("NoETL", *peers)]
    for peer in peers:
        theirs = medians[name, size, peer]
        ratio = theirs / ours if name == "latency" else ours / theirs
        rows.append(figures.rate("peers", f"{title}: NoETL to {peer}", ratio, goal if peer == "restate" else None, "x"))
    return rows


def _installed() -> dict[str, Environment]:
    """The peers that can run here; of the others it is said why not."""
    found: dict[str, Environment] = {}
    for peer in PEERS:
        try:
            found[peer] = environment(peer)
        except RuntimeError as problem:
            print(f"bench: {peer} IS NOT COMPARED: {problem}", file=sys.stderr)
    return found


def _figure(name: str, size: int, seconds: float) -> float:
    return 1000 * seconds if name == "latency" else size / seconds


def _ours(name: str, size: int) -> float:
    return alone(name, size)["seconds"]


def _theirs(peer: str, place: Environment, name: str, size: int) -> float:
    command = [str(place.python), str(HERE / f"{peer}_peer.py"), name, str(size)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **place.variables}
    )
    if done.returncode:
        raise RuntimeError(f"{peer} failed on {name} {size}:\n{done.stderr[-2000:]}")
    seconds: float = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    return seconds
