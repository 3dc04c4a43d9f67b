"""Marked processes: everything that a program started carries the mark of its run in its environment.

A daemon makes a session of its own and so leaves the group that is killed; the mark stays with it. Looked for in
/proc, where there is one. A process that is started with an empty environment cannot be found by it. One that is just
becoming another program shows no environment for that moment, so whoever shows none is looked at again.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

from noetl.tools.python.child.processes import kill

MARK = "NOETL_RUN"
_ROUNDS = 20  # who is killed may have started another meanwhile
# A program that is just starting shows no environment for some microseconds; it is looked at again after this.
_MOMENT_S = 0.01


def now() -> float:
    """Seconds on the clock by which /proc tells when a process began."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


async def end_marked(run: str, *, since: float) -> None:
    """Kill every process of this run, in whatever session it is. `since` is when it began."""
    for _ in range(_ROUNDS):
        found, is_certain = looked_for(run, since)
        kill(found)
        if not found:
            if is_certain:
                return
            await asyncio.sleep(_MOMENT_S)


def looked_for(run: str, since: float) -> tuple[list[int], bool]:
    """The live processes that carry the mark of `run`, and whether no other that began since might."""
    wanted, found, is_certain = f"{MARK}={run}".encode(), list[int](), True
    for pid in _own_process_ids():
        environment = read(pid, "environ")
        if wanted in environment.split(b"\0"):
            found.append(pid)
        elif not environment and _is_running(pid) and _began(pid) >= since - 1:
            is_certain = False
    return found, is_certain


def _own_process_ids() -> list[int]:
    ours = os.getuid()
    with suppress(OSError), os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit() and _owner(entry) == ours]
    return []


def _owner(entry: os.DirEntry[str]) -> int | None:
    with suppress(OSError):  # it ended meanwhile
        return entry.stat().st_uid
    return None


def read(pid: int, what: str) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/{what}", "rb") as file:  # it may have ended, or not be for us to read
        return file.read()
    return b""


def _is_running(pid: int) -> bool:
    """Whether it is a program: one that has ended, and a thread of the kernel, has none."""
    with suppress(OSError):
        return bool(os.readlink(f"/proc/{pid}/exe"))
    return False


def _began(pid: int) -> float:
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK") if len(fields) > 19 else 0.0
