"""Who a worker is: host, process and the moment it started, so that a dead one can be told from a living one."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def own_worker_id() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{started_at(os.getpid()) or 0}"


def remote_worker_id(name: str | None = None) -> str:
    """For a worker that a server knows by an address of its API: no slashes, and by a name that people chose."""
    return f"{name or socket.gethostname()}:{os.getpid()}:{started_at(os.getpid()) or 0}"


def is_gone(worker_id: str) -> bool:
    """Whether this worker has certainly ended: it ran on this host, and its process is not there any more."""
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
    now = started_at(int(pid))
    return now is not None and started not in ("", "0") and str(now) != started  # the number was given out again


def started_at(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its number that tells it from every other. None when
    there is no such process, or the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])
