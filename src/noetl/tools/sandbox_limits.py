"""Limits of a whole task in a sandbox: its processes together, watched from outside.

The limits of the system apply to each process, so a task with fifty processes could use fifty times as much. A watcher
measures all processes of the task ten times a second and ends them when they use more together. Between two
measurements a task can use more, as much as its processors can write in that time. Files in memory that a process has
open and not mapped (`memfd_create`) belong to no process; they are counted as well. Segments of System V and buffers of
sockets are not seen: only a limit of the worker itself bounds those.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from noetl.base.errors import ToolError
from noetl.tools.python.child.condition import descendants

LIMIT = "sandbox.limit"
_EVERY_S = 0.1
# A pause is at least this many times as long as a measurement: measuring many processes takes long.
_PAUSE = 10
_OWN_THREADS = 8  # of bubblewrap and of the guard of a program
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat, counted from the one after the name in parentheses.
_CPU_TICKS, _THREADS, _RESIDENT_PAGES = slice(11, 15), 17, 21
# Of /proc/PID/smaps_rollup and of /proc/PID/status: memory that is not a copy of a file, in KiB.
_SHARES = (b"Pss_Anon:", b"Pss_Shmem:")
_RESIDENT = (b"RssAnon:", b"RssShmem:")


class TaskUsage(NamedTuple):
    """What the processes of a task use at one moment. CPU time includes that of processes that have ended."""

    threads: int = 0
    memory_bytes: int = 0
    cpu_s: float = 0.0


class TaskWatch:
    """The watch over one task. `excess` says which limit its processes exceeded together; None if they did not."""

    def __init__(self, pid: int, limits: Mapping[str, Any]) -> None:
        self._pid, self._limits = pid, limits
        self.excess: str | None = None

    def raise_excess(self) -> None:
        """Raise ToolError `sandbox.limit` if the watcher has ended the task."""
        if self.excess is not None:
            raise ToolError(LIMIT, self.excess)

    async def run(self) -> None:
        while self.excess is None:
            began = time.monotonic()
            # In a thread: a task may have hundreds of processes, and each takes several file reads.
            self.excess = await asyncio.to_thread(excess_of, self._pid, self._limits)
            await asyncio.sleep(max(_EVERY_S, _PAUSE * (time.monotonic() - began)) if self.excess is None else 0)
        # The group is bubblewrap. All processes of the sandbox die with it, whatever sessions they made.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)


@asynccontextmanager
async def watched(pid: int, limits: Mapping[str, Any], *, is_sandboxed: bool) -> AsyncIterator[TaskWatch]:
    """Watch the task until the block ends. `pid` is its sandbox, the leader of its process group. A task without a
    sandbox is not watched: its code could escape from the processes that can be found."""
    watch = TaskWatch(pid, limits)
    running = asyncio.ensure_future(watch.run()) if is_sandboxed else None
    try:
        yield watch
    finally:
        if running is not None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def excess_of(pid: int, limits: Mapping[str, Any]) -> str | None:
    """The limit that the processes below `pid` exceed together; None if they stay within all limits."""
    pids = descendants(pid)
    used = usage_of(pids)
    most = limits.get("processes")
    if most is not None and used.threads > most + _OWN_THREADS:
        return _message(f"are {used.threads} processes and threads", f"be {most}", "processes")
    most = limits.get("cpu_s")
    if most is not None and used.cpu_s > most:
        return _message(f"have used {used.cpu_s:.0f} s of CPU time", f"use {most:g} s", "cpu_time")
    most = limits.get("memory_bytes")
    if most is None:
        return None
    open_bytes = open_memory_bytes(pids)
    if used.memory_bytes + open_bytes <= most:
        return None
    # Pages that several processes share were counted for each of them. The exact count takes longer.
    held = sum(_own_bytes(each) for each in pids)
    # Shared pages may be those of an open file, so they are not counted twice.
    shared = sum(_sum_of(read_proc(each, "smaps_rollup"), _SHARES[1:]) for each in pids)
    held += max(open_bytes - shared, 0)
    if held <= most:
        return None
    return _message(f"hold {held >> 20} MiB of memory", f"hold {most >> 20} MiB", "memory")


def usage_of(pids: list[int]) -> TaskUsage:
    """The sum over the processes. Pages that they share are counted for each."""
    threads = pages = ticks = 0
    for pid in pids:
        fields = read_proc(pid, "stat").rpartition(b")")[2].split()
        if len(fields) > _RESIDENT_PAGES:  # without a line, the process has ended
            threads += int(fields[_THREADS])
            pages += int(fields[_RESIDENT_PAGES])
            ticks += sum(map(int, fields[_CPU_TICKS]))
    return TaskUsage(threads, pages * _PAGE_BYTES, ticks / _TICKS_PER_S)


def open_memory_bytes(pids: Iterable[int]) -> int:
    """The size of all files in memory, without a place in a folder, that one of the processes has open. A file that
    several of them have open is counted once."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        with suppress(OSError):  # it may have ended, or belong to another user
            for entry in os.listdir(folder):
                with suppress(OSError):
                    if os.readlink(f"{folder}/{entry}").startswith("/memfd:"):
                        found = os.stat(f"{folder}/{entry}")
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())


def _own_bytes(pid: int) -> int:
    """The share of one process in the memory of all. If the system does not report it, all memory of the process."""
    return _sum_of(read_proc(pid, "smaps_rollup"), _SHARES) or _sum_of(read_proc(pid, "status"), _RESIDENT)


def _sum_of(text: bytes, names: tuple[bytes, ...]) -> int:
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) << 10 for row in rows if len(row) > 1 and row[0] in names)


def read_proc(pid: int, what: str) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/{what}", "rb") as file:  # it may have ended, or belong to another user
        return file.read()
    return b""


def _message(found: str, allowed: str, key: str) -> str:
    return f"the processes of this task {found} together, and may {allowed}: set spec.resources.{key} if they need more"
