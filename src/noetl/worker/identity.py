"""Who a worker is: host, process and the moment it started, so that a dead one can be told from a living one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_DEAD = ("Z", "X")  # states of a process that has ended and has not been taken note of


def own_worker_id() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{started_at(os.getpid()) or 0}"


def own_instance() -> str:
    """What tells this process from others on hosts of the same name, also from one that had its number before."""
    return f"{os.getpid()}:{started_at(os.getpid()) or 0}:{os.urandom(8).hex()}"


def is_gone(worker_id: str) -> bool:
    """Whether this worker has certainly ended: it ran on this host, and its process is not there any more, or is dead
    and only waits for its parent to take note (in a container there is often none that does)."""
    host, _, rest = worker_id.partition("/")
    pid, _, started = rest.partition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    told = _told_of(int(pid))
    if not told:
        return False
    return told[0] in _DEAD or (started not in ("", "0") and told[19] != started)  # or the number was given out again


def started_at(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its number that tells it from every other. None when
    there is no such process, or the system does not tell."""
    told = _told_of(pid)
    return int(told[19]) if told else None


def _told_of(pid: int) -> list[str]:
    """What the system tells of a process, after its name, which may hold blanks: its state comes first."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()
