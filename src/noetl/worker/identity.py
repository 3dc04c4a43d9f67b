"""The identity of a worker: host, process and start time, which distinguish it from one that ended before."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_DEAD = ("Z", "X")  # states of a process that has ended and whose parent has not waited for it


def own_worker_id() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{started_at(os.getpid()) or 0}"


def own_instance() -> str:
    """Distinguishes this process from others on hosts of the same name, and from an earlier one with the same pid."""
    return f"{os.getpid()}:{started_at(os.getpid()) or 0}:{os.urandom(8).hex()}"


def is_gone(worker_id: str) -> bool:
    """Whether this worker has certainly ended: it ran on this host, and its process is gone or a zombie. In a container
    often no parent waits for zombies."""
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
    fields = _process_status(int(pid))
    if not fields:
        return False
    # Another start time: the pid was given to another process.
    return fields[0] in _DEAD or (started not in ("", "0") and fields[19] != started)


def started_at(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: pid and start time identify a process. None if there is no
    such process, or if the system does not say."""
    fields = _process_status(pid)
    return int(fields[19]) if fields else None


def _process_status(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` after the name, which may contain blanks: the state comes first."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()
