"""Misbehaving code of `kind: python` inside a real run: a clear outcome each time, and the next task works (OUT-05)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl.events.tasks import TaskProcessed
from tests.faults.killing import log_of
from tests.faults.processes import Ended, noetl, written
from tests.narrowing import payloads
from tests.volume import IS_DEEP

MB = 1 << 20


def ran(folder: Path, tasks: Mapping[str, str], **spec: Any) -> tuple[Ended, dict[str, Any]]:
    """One run with a task for each, each going on whatever comes out; its events' outcomes by task. `spec` is that of
    all but the last, which only looks at what is left."""
    usual = {"timeout": 100, "policy": {"rules": [{"else": {"then": {"do": "continue"}}}]}}
    pipeline = [
        {"name": name, "kind": "python", "code": code, "spec": usual if name == "last" else {**usual, **spec}}
        for name, code in tasks.items()
    ]
    file = written(folder, f"workflow: [{{step: start, tool: {json.dumps(pipeline)}}}]")
    done = noetl("run", file, "--db", "s.db", "-o", "json", "-q", cwd=folder)
    (events,) = log_of(folder).values()
    return done, {one.task: one.outcome for one in payloads(events, TaskProcessed)}


BAD: dict[str, tuple[str, str, str]] = {
    "raises": ("raise KeyError('x')", "py.exception", "KeyError: 'x'"),
    "mute": (
        "class E(Exception):\n    def __str__(self): return 5\nraise E()",
        "py.exception",
        "E: (its message cannot be read)",
    ),
    "exits": ("import sys; sys.exit(3)", "py.exception", "SystemExit: 3"),
    "exits_well": ("import sys; sys.exit(0)", "py.exception", "SystemExit: 0"),
    "leaves": ("import os; os._exit(0)", "py.exception", "the python process ended with code 0 before it gave"),
    "crashes": ("import os; os.kill(os.getpid(), 11)", "py.exception", "was killed by signal SIGSEGV"),
    "kills_all": ("import os; os.killpg(0, 9)", "py.exception", "was killed by signal SIGKILL"),
    "recurses": ("def f(): f()\nf()", "py.exception", "RecursionError: "),
    "closes": ("import os; os.closerange(0, 256)", "py.exception", "before it gave a result"),
    "nan": ("result = float('nan')", "py.result", "the result (float) is not JSON"),
    "infinite": ("result = {'a': [1, {'b': float('-inf')}]}", "py.result", "the result (dict) is not JSON"),
    "object": ("result = object()", "py.result", "the result (object) is not JSON"),
    "date": (
        "import datetime\nresult = {'rows': [{'day': datetime.date(2026, 1, 2)}]}",
        "py.result",
        "result['rows'][0]['day'] is a date: write it as text with .isoformat()",
    ),
    "bytes": ("result = b'x'", "py.result", "the result (bytes) is not JSON"),
    "cycle": ("x = []; x.append(x); result = x", "py.result", "Circular reference"),
    "deep": ("x = []\nfor _ in range(100_000): x = [x]\nresult = x", "py.result", "the result (list) is not JSON"),
    "half": ("result = chr(0xD800)", "py.result", "the result (str) is not JSON"),
    "digits": ("result = 10 ** 5000", "py.result", "the result (int) is not JSON"),
}


@pytest.mark.req("OUT-05", "TOOL-07", "O-11")
def test_misbehaving_code_gives_an_outcome_and_the_next_task_works(tmp_path: Path) -> None:
    done, outcomes = ran(tmp_path, {**{name: code for name, (code, *_) in BAD.items()}, "last": "result = 'alive'"})

    assert done.code == 0, done.stderr
    assert done.json()["result"] == "alive"
    found = {name: (outcomes[name].error.kind, outcomes[name].error.message) for name in BAD}
    for name, (_, kind, message) in BAD.items():
        assert found[name][0] == kind, found[name]
        assert message in found[name][1]


@pytest.mark.req("OUT-05")
def test_hanging_code_that_ignores_signals_is_killed_at_its_timeout(tmp_path: Path) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"

    done, outcomes = ran(tmp_path, {"hangs": code, "last": "result = 'alive'"}, timeout=0.5)

    assert done.json()["result"] == "alive"
    assert outcomes["hangs"].error.kind == "timeout"


PEAK_KB = 500_000
PRINTED_MIB = 1024 if IS_DEEP else 640  # more than PEAK_KB
PEAKS = """
import os, re
result = [int(re.search(r'VmHWM:\\s+(\\d+)', open(f'/proc/{pid}/status').read())[1]) for pid in ('self', os.getppid())]
"""


@pytest.mark.req("TOOL-07", "O-11")
def test_more_output_than_a_process_may_hold_is_neither_stored_nor_held_in_memory(tmp_path: Path) -> None:
    tasks = {
        "prints": f"line = 'x' * (1 << 20)\nfor _ in range({PRINTED_MIB}): print(line)\nresult = 1",
        "writes": f"import os\nfor _ in range({PRINTED_MIB}): os.write(2, b'x' * (1 << 20))\nresult = 2",
        "raises": f"for _ in range({PRINTED_MIB}): print('y' * (1 << 20))\nraise ValueError('z' * (100 << 20))",
        "last": PEAKS,
    }

    done, outcomes = ran(tmp_path, tasks)

    assert done.code == 0, done.stderr
    assert len(outcomes["prints"].meta.stdout) < 70_000
    assert outcomes["prints"].meta.stdout.rstrip(")").endswith("characters"), "how much there was is told"
    assert len(outcomes["raises"].error.message) < 5_000
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 5 * MB
    assert max(done.json()["result"]) < PEAK_KB, "of the code's process and of ours"


FORKS = {
    "in its session": "",
    "in a session of its own": "os.setsid()",
    "left by its parent": "os.setsid(); os.fork() and os._exit(0)",
}


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize("how", FORKS)
@pytest.mark.parametrize(
    "after", ["result = 1", "time.sleep(60)", "raise ValueError()"], ids=["ends", "hangs", "raises"]
)
def test_a_process_started_by_code_ends_with_its_task(tmp_path: Path, how: str, after: str) -> None:
    code = f"""
import os, time
if os.fork() == 0:
    {FORKS[how] or "pass"}
    open('part', 'w').write(str(os.getpid()))
    os.rename('part', 'pid')
    time.sleep(60)
    os._exit(0)
while not os.path.exists('pid'):
    time.sleep(0.01)
{after}
"""
    look = """
try:
    result = open('/proc/' + open('pid').read() + '/stat').read().rpartition(')')[2].split()[0]
except FileNotFoundError:
    result = 'gone'
"""

    done, _ = ran(tmp_path, {"forks": code, "last": look}, timeout=1.0)

    assert done.code == 0, done.stderr
    assert done.json()["result"] in ("gone", "Z"), "it has ended before the next task begins"


def test_an_orphan_process_with_inherited_files_does_not_block_the_run(tmp_path: Path) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n    os._exit(0)\nos._exit(3)"

    done, outcomes = ran(tmp_path, {"leaves": code, "last": "result = 'alive'"}, timeout=500)

    assert done.json()["result"] == "alive"
    assert "ended with code 3" in outcomes["leaves"].error.message


@pytest.mark.req("RES-01", "RES-03", "RES-06")
def test_a_result_of_nearly_64_mib_is_accepted_and_a_larger_one_refused(tmp_path: Path) -> None:
    tasks = {
        "large": f"result = 'x' * {63 * MB}",
        "reads": "result = len(large)",
        "too_large": f"result = 'x' * {66 * MB}",
        "last": "result = reads",
    }

    done, outcomes = ran(tmp_path, tasks)

    assert done.code == 0, done.stderr
    assert outcomes["large"].ref.size == 63 * MB + 2
    assert outcomes["too_large"].error.kind == "result.too_large"
    assert os.path.getsize(tmp_path / "s.db") < MB, "the log holds references"
    assert done.json()["result"] == 63 * MB
