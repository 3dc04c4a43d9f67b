"""Processes that the code starts: a task leaves none behind, in whatever session they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

STARTING = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})
# PR_SET_CHILD_SUBREAPER of prctl(2).
_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """From now on, what our descendants leave behind when they end becomes a child of ours, not of the system's, so
    that it can be found; where the system knows such a thing."""
    # Broad: without ctypes or prctl, orphans go to the system as ever, and no task fails for it.
    with suppress(Exception):
        import ctypes  # slow to import, and rarely needed

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """End everything below this process, and wait until it is gone."""
    for _ in range(100):  # who is killed may leave others behind
        found = descendants(os.getpid())
        kill(found)
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            if not found:
                return


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The processes right below this one, where the system tells."""
    found: list[int] = []
    tasks = f"/proc/{pid}/task"
    with suppress(OSError):
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    return found


def descendants(pid: int) -> list[int]:
    """Every process below this one, where the system tells."""
    found: list[int] = []
    pending = [pid]
    while pending:
        below = children(pending.pop())
        found += below
        pending += below
    return found
