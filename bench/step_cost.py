"""What a step costs, counted rather than timed: `python -m bench.step_cost chain 300`.

Three figures, since the machine is shared and wall clock says little on it:

- calls of functions per step, by package (cProfile). The same program makes the same calls on any machine.
- instructions per step (`--instructions`, valgrind's callgrind), as the difference between three runs and one in the
  same process, so that imports, compiling and the opening of the store do not count. Repeatable to about one per cent.
- processor time per step, the least of several processes. Other people's load only ever adds to it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.embedded import ROOT, alone
from bench.playbooks import chain, loop
from bench.workload import warm
from noetl.net.net import Net
from noetl.operations.embedded import Driver, compiled, driving

_STEPS_OF_CROWD = 3
_TOTAL = re.compile(r"Collected\s*:\s*(\d+)")
Calls = dict[tuple[str, int, str], tuple[int, int, float, float, Any]]


async def profiled(db: Path, what: str, size: int) -> pstats.Stats:
    """One run of the workload, warm, with every call counted."""
    profile = cProfile.Profile()
    async with driving(db, slots=64 if what == "crowd" else 8) as driver:
        await warm(driver)
        net = net_of(what, size)
        profile.enable()
        await run(driver, net, what, size)
        profile.disable()
    return pstats.Stats(profile)


def net_of(what: str, size: int) -> Net:
    return compiled(loop() if what == "loop" else chain(size if what == "chain" else _STEPS_OF_CROWD))


async def run(driver: Driver, net: Net, what: str, size: int) -> None:
    number, payload = size if what == "crowd" else 1, {"items": list(range(size))} if what == "loop" else None
    results = await asyncio.gather(*(driver.run(net, payload) for _ in range(number)))
    assert all(result.ok for result in results)


async def repeated(what: str, size: int, times: int) -> None:
    """The workload so many times in this process, one after the other."""
    net = net_of(what, size)
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        async with driving(Path(folder) / "bench.db", slots=64 if what == "crowd" else 8) as driver:
            for _ in range(times):
                await run(driver, net, what, size)


def calls(what: str, size: int) -> Calls:
    """Calls of the workload without those that any run makes, however short."""
    found: list[Calls] = []
    for each in (2, 2 + size):
        with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
            stats = asyncio.run(profiled(Path(folder) / "bench.db", what, each))
        found.append(stats.stats)  # type: ignore[attr-defined]
    least, most = found
    none: tuple[int, int, float, float, Any] = (0, 0, 0.0, 0.0, {})
    return {
        where: (0, of[1] - least.get(where, none)[1], of[2] - least.get(where, none)[2], of[3], {})
        for where, of in most.items()
    }


def package_of(where: tuple[str, int, str]) -> str:
    file = where[0]
    if "/noetl/" in file:
        parts = file.partition("/noetl/")[2].split("/")
        return "noetl." + parts[0].removesuffix(".py")
    if file == "~":
        return "sqlite" if "sqlite3" in where[2] else "C functions"
    return "asyncio" if "asyncio" in file else "other Python"


def report(what: str, size: int, lines: int) -> Iterator[str]:
    steps = size * (_STEPS_OF_CROWD if what == "crowd" else 1)
    found = calls(what, size)
    by_package: Counter[str] = Counter()
    for where, of in found.items():
        by_package[package_of(where)] += of[1]
    yield f"{what} of {size:,}: calls per step"
    for package, number in by_package.most_common():
        yield f"{number / steps:9.1f}  {package}"
    yield f"{sum(by_package.values()) / steps:9.1f}  all"
    most = sorted(found.items(), key=lambda one: -one[1][2])[:lines]
    for (file, line, name), of in most:
        yield f"{of[1] / steps:9.2f} calls {1e6 * of[2] / steps:7.1f} us profiled  {file[-45:]}:{line} {name}"


def processor_ms(what: str, size: int, times: int) -> float:
    """Per step; the least of some processes."""
    steps = size * (_STEPS_OF_CROWD if what == "crowd" else 1)
    return 1000 * min(alone(what, size)["busy"] for _ in range(times)) / steps


def instructions(what: str, size: int) -> float:
    """Per step, by callgrind: three runs without what the first of them needs besides."""
    steps = size * (_STEPS_OF_CROWD if what == "crowd" else 1)
    return (_executed(what, size, 3) - _executed(what, size, 1)) / (2 * steps)


def _executed(what: str, size: int, times: int) -> int:
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", sys.executable]
        # Random hashes move dictionaries about, and with them the count.
        done = subprocess.run(
            [*command, "-m", "bench.step_cost", what, str(size), "--repeat", str(times)],
            cwd=ROOT,
            env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
    found = _TOTAL.search(done.stderr)
    if found is None:
        raise RuntimeError(f"callgrind said nothing:\n{done.stderr}")
    return int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=("chain", "crowd", "loop"))
    parser.add_argument("size", type=int)
    parser.add_argument("--lines", type=int, default=0, help="how many functions to list, the dearest first")
    parser.add_argument("--times", type=int, default=5, help="processes of which the least time counts; 0: none")
    parser.add_argument("--instructions", action="store_true", help="count them with valgrind (a minute or two)")
    parser.add_argument("--repeat", type=int, default=0, help="only run it so many times, for tools that look on")
    given = parser.parse_args()
    if given.repeat:
        asyncio.run(repeated(given.workload, given.size, given.repeat))
        return
    for line in report(given.workload, given.size, given.lines):
        print(line)
    if given.times:
        print(f"{processor_ms(given.workload, given.size, given.times):9.3f}  ms of processor time, least")
    if given.instructions:
        print(f"{instructions(given.workload, given.size):9,.0f}  instructions")


if __name__ == "__main__":
    main()
