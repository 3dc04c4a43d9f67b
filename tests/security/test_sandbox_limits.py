"""Attack: code in a sandbox that goes around the limits of a process by starting many."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from noetl.operations.embedded import RunResult
from noetl.tools import sandbox
from noetl.tools.sandbox_limits import open_memory_bytes
from tests.security.sandboxed_tasks import python, ran


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    if (why := asyncio.run(sandbox.unavailable())) is not None:
        pytest.skip(f"NO SANDBOX WAS TESTED HERE: {why}")


# Each process stays far below the limit and holds what it has until it is ended.
HOLDS = """
import os, time
for n in range(8):
    if os.fork() == 0:
        held = bytearray(os.urandom(1 << 20)) * 48
        time.sleep(600)
time.sleep(600)
"""
TURNS = """
import os
for n in range(4):
    if os.fork() == 0:
        while True:
            pass
while True:
    pass
"""
STARTS = """
import os, time
for n in range(60):
    if os.fork() == 0:
        time.sleep(600)
time.sleep(600)
"""

# Files in memory that no process maps: they are in the memory of none.
FILES = """
import os, time
piece = bytes(1 << 20)
held = [os.memfd_create(str(n)) for n in range(16)]
for file in held:
    for n in range(32):
        os.write(file, piece)
time.sleep(40)
"""


def ended(code: str, resources: str) -> RunResult:
    return python(code, f"{{sandbox: strict, timeout: 300, resources: {resources}}}")


@pytest.mark.req("TOOL-15")
@pytest.mark.parametrize(
    ("code", "resources", "key"),
    [
        (HOLDS, "{memory: 256Mi}", "memory"),
        (FILES, "{memory: 256Mi}", "memory"),
        (TURNS, "{cpu_time: 3}", "cpu_time"),
        (STARTS, "{processes: 20}", "processes"),
    ],
    ids=["memory", "files in memory", "processor time", "processes"],
)
def test_the_limits_of_a_sandbox_are_those_of_all_its_processes_together(code: str, resources: str, key: str) -> None:
    result = ended(code, resources)

    assert result.error is not None
    assert result.error.kind == "sandbox.limit"
    assert f"set spec.resources.{key}" in result.error.message


def test_a_file_in_memory_is_counted_once_for_all_processes_that_have_it_open() -> None:
    file, other = os.memfd_create("held"), os.memfd_create("other")
    try:
        os.write(file, bytes(3 << 20))
        os.write(other, bytes(1 << 20))
        child = subprocess.Popen(["sleep", "600"], pass_fds=[file])
        try:
            assert open_memory_bytes([os.getpid(), child.pid]) == open_memory_bytes([os.getpid()])
            assert open_memory_bytes([child.pid]) == 3 << 20
        finally:
            child.kill()
            child.wait()
    finally:
        os.close(file)
        os.close(other)


@pytest.mark.req("TOOL-15")
def test_processes_of_a_program_that_left_its_session_are_counted_and_ended() -> None:
    holds = 'setsid python3 -c "x = bytearray(64 << 20); import time; time.sleep(601)"'
    text = f"for n in 1 2 3 4 5 6; do {holds} & done; wait"
    result = ran(f"{{name: a, kind: shell, cmds: '{text}', spec: {{sandbox: strict, resources: {{memory: 256Mi}}}}}}")

    assert result.error is not None
    assert result.error.kind == "sandbox.limit"
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "time.sleep(601)" not in listed.stdout


@pytest.mark.req("TOOL-15")
def test_memory_that_processes_share_is_counted_once() -> None:
    code = """
import os, time
held = bytearray(os.urandom(1 << 20)) * 96
pids = []
for n in range(6):
    pid = os.fork()
    if pid == 0:
        seen = sum(held[::4096])
        time.sleep(1.0)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
result = len(pids)
"""
    result = ended(code, "{memory: 400Mi}")

    assert result.ok, result.error
    assert result.result == 6
