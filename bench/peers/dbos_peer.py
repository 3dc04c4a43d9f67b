"""The workloads on DBOS with its embedded SQLite store: `python dbos_peer.py chain 100`."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from dbos import DBOS
from workloads import median, report, state_folder, workload


@DBOS.step()
def one(value: int) -> int:
    return value


@DBOS.workflow()
def chain(steps: int) -> int:
    for number in range(steps):
        one(number)
    return steps


@DBOS.workflow()
def item(number: int) -> int:
    return one(number)


@DBOS.workflow()
def fan_out(items: int) -> int:
    """One child workflow for each item, DBOS's way to run them at once."""
    handles = [DBOS.start_workflow(item, number) for number in range(items)]
    return sum(handle.get_result() for handle in handles)


def crowd(executions: int) -> None:
    handles = [DBOS.start_workflow(chain, 3) for _ in range(executions)]
    for handle in handles:
        handle.get_result()


def latencies(samples: int) -> list[float]:
    taken = []
    for _ in range(samples):
        began = time.perf_counter()
        DBOS.start_workflow(chain, 1).get_result()
        taken.append(time.perf_counter() - began)
    return taken


def measured(name: str, size: int) -> float:
    """Seconds of the workload; of `latency` the median of its samples."""
    if name == "latency":
        return median(latencies(size))
    runs: dict[str, Callable[[int], object]] = {"chain": chain, "crowd": crowd, "loop": fan_out}
    began = time.perf_counter()
    runs[name](size)
    return time.perf_counter() - began


def main(folder: Path) -> None:
    name, size = workload()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/system.sqlite",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    DBOS.launch()
    chain(1)  # what is imported and opened the first time is done
    report(measured(name, size), f"DBOS {version('dbos')}")
    DBOS.destroy()


if __name__ == "__main__":
    with state_folder("dbos") as place:
        main(place)
