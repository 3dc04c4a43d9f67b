"""The condition of the process between two calls. Which process a task gets must make no difference to it, so what the
code changed is put back where that can be done, and where it cannot, the process is not used again. Modules stay
imported: they are the execution's own."""

from __future__ import annotations

import os
import signal
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Those that libraries commonly handle; asking for all of them would cost time at every call.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGCHLD)


class Condition:
    """How the process is now."""

    def __init__(self) -> None:
        self._folder = _folder()
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._rest = _process_state()

    def restored(self) -> bool:
        """Put back what can be; whether everything is as it was."""
        if os.environ != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.path[:] = self._path
        try:
            if self._folder is not None and _folder() != self._folder:
                os.chdir(self._folder)
        except OSError:
            return False
        return _process_state() == self._rest


def _process_state() -> tuple[Any, ...]:
    """What only a new process puts right: threads that still run, hooks, handlers."""
    handlers = [signal.getsignal(each) for each in _SIGNALS]
    return threading.active_count(), sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), handlers


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None
