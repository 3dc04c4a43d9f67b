"""Marked processes: everything that a program started carries the mark of its run in its environment.

A daemon makes a session of its own and so leaves the group that is killed; the mark stays with it. Looked for in
/proc, where there is one. A process that is started with an empty environment cannot be found by it.
"""

from __future__ import annotations

import os
from contextlib import suppress

from noetl.tools.python.child.processes import kill

MARK = "NOETL_RUN"
_ROUNDS = 20  # who is killed may have started another meanwhile


def end_marked(run: str) -> None:
    """Kill every process of this run, in whatever session it is."""
    for _ in range(_ROUNDS):
        found = marked(run)
        kill(found)
        if not found:
            return


def marked(run: str) -> list[int]:
    """The live processes that carry the mark of `run`. One that has ended has no environment any more."""
    wanted, ours = f"{MARK}={run}".encode(), os.getuid()
    with suppress(OSError), os.scandir("/proc") as entries:
        numbered = [entry for entry in entries if entry.name.isdigit()]
        return [int(entry.name) for entry in numbered if wanted in _environment_of(entry, ours)]
    return []


def _environment_of(entry: os.DirEntry[str], owner: int) -> list[bytes]:
    with suppress(OSError):  # it ended meanwhile, or may not be read
        if entry.stat().st_uid == owner:
            with open(f"{entry.path}/environ", "rb") as file:
                return file.read().split(b"\0")
    return []
