"""Limits of one call, and of no later one."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def limit(limits: dict[str, Any]) -> None:
    """Set what is declared and lift the rest. CPU time is counted from now, since the process outlives a call."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = limits.get("cpu_s")
    wanted = {
        resource.RLIMIT_AS: limits.get("memory_bytes"),
        resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime + cpu_s) + 1 if cpu_s else None,
        resource.RLIMIT_FSIZE: limits.get("file_bytes"),
        resource.RLIMIT_NOFILE: limits.get("open_files"),
        resource.RLIMIT_NPROC: processes_of(limits.get("processes")),
    }
    for what, soft in wanted.items():
        before, hard = resource.getrlimit(what)
        lifted = _AT_FIRST.setdefault(what, before)
        now = lifted if soft is None else within(int(soft), hard)
        if now != before:
            resource.setrlimit(what, (now, hard))


def processes_of(more: int | None) -> int | None:
    """The system counts all processes and threads of a user, so those that there are already come on top. They are
    counted once: others begin and end all the time."""
    if more is not None and not _RUNNING:
        _RUNNING.append(threads_of_user())
    return None if more is None else _RUNNING[0] + more


def threads_of_user() -> int:
    """How many threads all processes of this user have, where the system tells."""
    # The system's limit counts all threads of the user, not those of this process: what others have is added to it.
    ours, found = os.getuid(), 0
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):  # it may have ended meanwhile
                if entry.name.isdigit() and entry.stat().st_uid == ours:
                    found += os.stat(f"/proc/{entry.name}/task").st_nlink - 2
    return found


_RUNNING: list[int] = []  # what `threads_of_user` gave
_AT_FIRST: dict[int, int] = {}  # the soft limits this process began with


def within(soft: int, hard: int) -> int:
    """A soft limit never passes the hard one; asking for more is no mistake of the author's."""
    return soft if hard == resource.RLIM_INFINITY else min(soft, hard)
