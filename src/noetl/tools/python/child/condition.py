"""The state of the process between two calls, the limits of one call, and the processes that it starts. A task must not
notice which process it gets. Changes by the code are undone where possible; otherwise the process is not used again.
Processes end with their task, even in a session of their own. Modules stay imported: the process serves one execution
only."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The signals that libraries commonly handle; comparing all of them would cost time at every call.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGCHLD)


class ProcessState:
    """The state of the process when this object is made."""

    def __init__(self) -> None:
        self._folder = _folder()
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._fixed = _fixed_state()

    def restore(self) -> bool:
        """Undo changes where possible. Returns whether everything is as it was."""
        if os.environ != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.path[:] = self._path
        try:
            if self._folder is not None and _folder() != self._folder:
                os.chdir(self._folder)
        except OSError:
            return False
        return _fixed_state() == self._fixed


def _fixed_state() -> tuple[Any, ...]:
    """The part that only a new process resets: running threads, hooks, signal handlers."""
    handlers = [signal.getsignal(each) for each in _SIGNALS]
    return threading.active_count(), sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), handlers


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def limit(limits: dict[str, Any], *, final: bool = False) -> None:
    """Set the declared limits and lift all others. CPU time counts from now, since a process serves many calls. With
    `final`, neither the code nor a later call can raise them."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = limits.get("cpu_s")
    soft_limits = {
        resource.RLIMIT_AS: limits.get("memory_bytes"),
        resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime + cpu_s) + 1 if cpu_s else None,
        resource.RLIMIT_FSIZE: limits.get("file_bytes"),
        resource.RLIMIT_NOFILE: limits.get("open_files"),
        resource.RLIMIT_NPROC: processes_of(limits.get("processes")),
    }
    for what, soft in soft_limits.items():
        before, hard = resource.getrlimit(what)
        lifted = _INITIAL_LIMITS.setdefault(what, before)
        now = lifted if soft is None else within(int(soft), hard)
        if final and soft is not None:
            # At the soft limit of CPU time comes a signal that says why the process ends, at the hard one none.
            hard = within(now + 1 if what == resource.RLIMIT_CPU else now, hard)
        if now != before or final:
            resource.setrlimit(what, (now, hard))


def processes_of(more: int | None) -> int | None:
    """The system limit that allows `more` processes. The system counts all processes and threads of the user, so the
    present ones are added. They are counted once, because a count walks through all of /proc."""
    if more is not None and not _RUNNING:
        _RUNNING.append(threads_of_user())
    return None if more is None else _RUNNING[0] + more


def threads_of_user() -> int:
    """The number of threads of all processes of this user; 0 on systems without /proc."""
    own_uid, count = os.getuid(), 0
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):  # it may have ended meanwhile
                if entry.name.isdigit() and entry.stat().st_uid == own_uid:
                    count += os.stat(f"/proc/{entry.name}/task").st_nlink - 2
    return count


_RUNNING: list[int] = []  # the cached result of `threads_of_user`
_INITIAL_LIMITS: dict[int, int] = {}  # the soft limits this process began with


def within(soft: int, hard: int) -> int:
    """The soft limit, at most the hard one: a playbook cannot know the hard limits of each worker."""
    return soft if hard == resource.RLIM_INFINITY else min(soft, hard)


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
