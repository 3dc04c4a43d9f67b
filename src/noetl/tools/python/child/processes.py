"""Processes that the code starts. They end with their task, even in a session of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

STARTING = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})
# PR_SET_CHILD_SUBREAPER of prctl(2).
_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of orphaned descendants, in place of init, so that they can be found. Linux only."""
    # Broad: without ctypes or prctl, orphans go to init as usual, and no task fails for it.
    with suppress(Exception):
        import ctypes  # slow to import, and rarely needed

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """Kill all descendants of this process and wait for their end."""
    for _ in range(100):  # a killed process may leave children of its own behind; bounded against a fork bomb
        pids = descendants(os.getpid())
        kill(pids)
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            if not pids:
                return


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The direct children of a process; none on systems without /proc."""
    pids: list[int] = []
    tasks = f"/proc/{pid}/task"
    with suppress(OSError):
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/children", encoding="ascii") as file:
                pids += [int(child) for child in file.read().split()]
    return pids


def descendants(pid: int) -> list[int]:
    """All descendants of a process; none on systems without /proc."""
    pids: list[int] = []
    pending = [pid]
    while pending:
        below = children(pending.pop())
        pids += below
        pending += below
    return pids
