"""The processor time of tests: with NOETL_TESTS_COST=FILE each writes a line there; `python -m tests.processor_time
FILE` adds up.

Wall-clock time depends on the machine and its load, so this is processor time: of the test, its fixtures (those it is
the first to ask for included) and every process below it. Processes that a test leaves running, shared servers say,
count for the tests that run meanwhile.
"""

from __future__ import annotations

import os
import resource
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

FILE = "NOETL_TESTS_COST"
MARK = "NOETL_TESTS_COST_OF"
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(msgspec.Struct):
    test: str
    own_s: float
    children_s: float


class Processes:
    """Those below this one, and the daemons among them: started by one of them, whose parent has ended since. They have
    the environment of the tests, with the number of this process in it."""

    def __init__(self) -> None:
        os.environ[MARK] = str(os.getpid())
        self._daemons: dict[
            int, int
        ] = {}  # ticks of each when last seen: one that has ended has spent them all the same
        self._strangers: set[int] = set()

    def spent(self) -> float:
        """By the living, and by those they have waited for."""
        children: defaultdict[int, list[int]] = defaultdict(list)
        ticks: dict[int, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                fields = stat.read_text().rpartition(")")[2].split()
                number = int(stat.parent.name)
                children[int(fields[1])].append(number)
                ticks[number] = sum(map(int, fields[11:15]))
        self._find_daemons(children[1])
        for number in self._daemons.keys() & ticks.keys():
            self._daemons[number] = sum(ticks[one] for one in _family(children, [number]))
        living = sum(ticks[one] for one in _family(children, children[os.getpid()]))
        return (living + sum(self._daemons.values())) / TICKS

    def _find_daemons(self, orphans: list[int]) -> None:
        for number in orphans:
            if number not in self._strangers and number not in self._daemons:
                with suppress(OSError):
                    environment = Path("/proc", str(number), "environ").read_bytes().split(b"\0")
                    if f"{MARK}={os.getpid()}".encode() in environment:
                        self._daemons[number] = 0
                    else:
                        self._strangers.add(number)


def _family(children: dict[int, list[int]], heads: list[int]) -> list[int]:
    found = list(heads)
    for number in found:  # grows while it is read
        found += children.get(number, ())
    return found


def spent_by_self() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def spent_by_ended() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


class Meter:
    def __init__(self, file: str) -> None:
        self._file = file
        self._processes = Processes()
        self._own, self._children = 0.0, 0.0
        self.note("(start)")

    def note(self, test: str) -> None:
        """All that was spent since the last note was spent by this test."""
        own, children = spent_by_self(), spent_by_ended() + self._processes.spent()
        line = msgspec.json.encode(Cost(test, own - self._own, children - self._children)) + b"\n"
        with open(self._file, "ab") as costs:  # several processes add to it, each a line at a time
            costs.write(line)
        self._own, self._children = spent_by_self(), children

    def pytest_collection_finish(self) -> None:
        self.note("(collection)")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.note(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.note("(end)")


def table(costs: list[Cost], depth: str) -> list[tuple[str, int, float, float]]:
    rows: defaultdict[str, list[Cost]] = defaultdict(list)
    for one in costs:
        file = one.test.partition("::")[0]
        match depth:
            case "directory":
                rows["/".join(file.split("/")[:2])].append(one)
            case "file":
                rows[file].append(one)
            case "function":
                rows[one.test.partition("[")[0]].append(one)
            case _:
                rows[one.test].append(one)
    sums = [
        (name, len(some), sum(c.own_s for c in some), sum(c.children_s for c in some)) for name, some in rows.items()
    ]
    return sorted(sums, key=lambda row: -row[2] - row[3])


def main() -> None:
    costs = [msgspec.json.decode(line, type=Cost) for line in Path(sys.argv[1]).read_bytes().splitlines()]
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    for depth in ("directory", "file", "function", "test"):
        print(f"\n{'own s':>8} {'below s':>8} {'tests':>6}  by {depth}")
        for name, count, own, below in table(costs, depth)[:most]:
            print(f"{own:8.2f} {below:8.2f} {count:6}  {name}")


if __name__ == "__main__":
    main()
