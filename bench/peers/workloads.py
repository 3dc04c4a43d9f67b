"""What every peer script shares: its command line, a fresh folder, and one line of JSON at the end.

It runs in a peer's environment, so it imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

WORKLOADS = ("chain", "crowd", "loop", "latency")


def workload() -> tuple[str, int]:
    """The workload and its size, as they were given: `chain 100`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("size", type=int, help="steps, executions, items or samples")
    given = parser.parse_args()
    return given.workload, given.size


@contextmanager
def state_folder(peer: str) -> Iterator[Path]:
    """A new folder on the disk under test; BENCH_STATE names another disk."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{peer}-", dir=os.environ.get("BENCH_STATE")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def median(taken: Sequence[float]) -> float:
    ordered, middle = sorted(taken), len(taken) // 2
    return ordered[middle] if len(taken) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def report(seconds: float, version: str) -> None:
    print(json.dumps({"seconds": seconds, "version": version}), flush=True)
