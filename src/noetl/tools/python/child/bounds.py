"""Limits of one call, and of no later one."""

from __future__ import annotations

import resource

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
    }
    for what, soft in wanted.items():
        before, hard = resource.getrlimit(what)
        lifted = _AT_FIRST.setdefault(what, before)
        now = lifted if soft is None else within(int(soft), hard)
        if now != before:
            resource.setrlimit(what, (now, hard))


_AT_FIRST: dict[int, int] = {}  # the soft limits this process began with


def within(soft: int, hard: int) -> int:
    """A soft limit never passes the hard one; asking for more is no mistake of the author's."""
    return soft if hard == resource.RLIM_INFINITY else min(soft, hard)
