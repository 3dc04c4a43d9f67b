"""The group `language`: how long checking takes, from text to certificate."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from bench import templates
from bench.cold import cold
from bench.playbooks import hostile_texts, long_playbook, parallel_playbook
from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.language.proving.certificate import analyse
from noetl.tools.kinds import KINDS

CHECK_TEXT = """
import resource, sys, time
from noetl.language.checking import check
from noetl.base.diagnostics import Source
from noetl.tools.kinds import KINDS
text = open(sys.argv[1]).read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
checked = check(Source("bench", text), kinds=KINDS)
print(time.perf_counter() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
print(*sorted({d.code for d in checked.diagnostics}), file=sys.stderr)
"""


def language(repeats: int) -> list[dict[str, Any]]:
    return [
        row("check, 200 steps, 4,600 lines (in process)", median(repeats, lambda: fresh(long_playbook())[0]), 1.0),
        row(
            "check, 1,000 steps, parallel branches (in process)", median(repeats, lambda: fresh(parallel_playbook())[0])
        ),
        row("soundness alone, 1,000 steps, parallel branches", median(repeats, soundness), 0.5),
        row(
            "noetl check hello.yaml, cold process", median(repeats, lambda: cold("check", "examples/hello.yaml")), 0.35
        ),
        row(
            "noetl run hello.yaml, cold process",
            median(repeats, lambda: cold("run", "--memory", "examples/hello.yaml")),
            0.40,
        ),
        *hostile(),
        *templates.measured(),
    ]


def row(what: str, value: float, goal: float | None = None, unit: str = "s") -> dict[str, Any]:
    return {"group": "language", "what": what, "value": round(value, 4), "unit": unit, "goal": goal}


def median(repeats: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(repeats))


def fresh(text: str) -> tuple[float, float]:
    """Seconds and MiB to check `text` in a process of its own, so that no cache of ours helps."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([sys.executable, "-c", CHECK_TEXT, file.name], capture_output=True, text=True, check=True)
    seconds, mib = done.stdout.split()
    return float(seconds), float(mib)


def soundness() -> float:
    checked = check(Source("bench", parallel_playbook()), kinds=KINDS, proofs=False)
    assert checked.net is not None
    start = time.perf_counter()
    certificate = analyse(checked.net, checked.debug)
    assert certificate.verdict == "sound", certificate
    return time.perf_counter() - start


def hostile() -> list[dict[str, Any]]:
    worst = {name: fresh(text) for name, text in hostile_texts().items()}
    slowest = max(worst, key=lambda name: worst[name][0])
    largest = max(worst, key=lambda name: worst[name][1])
    return [
        row(f"hostile YAML refused, slowest of {len(worst)} ({slowest})", worst[slowest][0], 0.5),
        row(f"hostile YAML refused, largest of {len(worst)} ({largest})", worst[largest][1], 100.0, "MiB"),
    ]
