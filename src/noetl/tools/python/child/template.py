"""The template: a clean process that forks children on request, so that each begins with Python already started.

It never runs code of a playbook. The socket that is its standard input brings requests: a working folder with two
descriptors, the socket and the output pipe of a child. It answers `born PID` (0 if the system refused another process)
and reports `gone PID CODE` when a child has ended. Once it has forked several children, it imports modules that code
commonly uses while it is idle. When the worker is gone, it ends all children.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module

from . import serving  # noqa: TID252
from .condition import adopt, children, descendants, kill  # noqa: TID252

# In an order that keeps every single import short, since a request waits for the import in progress.
COMMON = (
    *(
        "typing",
        "traceback",
        "inspect",
        "re",
        "math",
        "datetime",
        "decimal",
        "collections",
        "itertools",
        "functools",
        "random",
        "statistics",
    ),
    *("string", "textwrap", "time", "uuid", "hashlib", "hmac", "base64", "csv", "copy", "dataclasses", "enum", "io"),
    *("pathlib", "tempfile", "subprocess", "logging", "urllib.parse", "socket", "concurrent.futures", "ssl", "asyncio"),
)
# They take 45 ms of processor, which a run that starts few children would spend for nothing.
SEVERAL = 3
IDLE_MS = 20  # after a request, so that further ones that are on their way come first


class TemplateProcess:
    """Forks children, reaps them, and after several imports common modules while idle."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, int] = {}  # pid by pidfd
        self._imports = iter(COMMON)
        self._requests = 0
        self._import_after_ms: int | None = None
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        while True:
            ready = self._poll.poll(self._import_after_ms)
            for descriptor, _ in ready:
                if descriptor in self._children:
                    self._reap(descriptor)
                elif not self._request():
                    return
            if not ready:
                self._import_after_ms = 0 if self._import_next() else None

    def _request(self) -> bool:
        """Fork one child; False when the worker is gone."""
        folder, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 2)
        if len(descriptors) != 2:
            return False
        pid = fork()
        if pid == 0:
            become_child(folder, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid is not None:
            pidfd = os.pidfd_open(pid)
            self._children[pidfd] = pid
            self._poll.register(pidfd, select.POLLIN)
        self._requests += 1
        if self._requests == SEVERAL:
            self._import_after_ms = IDLE_MS
        if self._requests == 1:
            # Here the first child starts meanwhile. It must happen before the child gets code, which may start a
            # process and crash.
            adopt()
        self._control.send(b"born %d" % (pid or 0))
        return True

    def _reap(self, pidfd: int) -> None:
        """Report the end of a child, after its orphans have ended too."""
        pid = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        self._end_orphans()
        self._control.send(b"gone %d %d" % (pid, os.waitstatus_to_exitcode(status)))

    def _end_orphans(self) -> None:
        for _ in range(100):
            orphans = set(children(os.getpid())) - set(self._children.values())
            if not orphans:
                return
            for orphan in orphans:
                kill([*descendants(orphan), orphan])
                with suppress(ChildProcessError):
                    os.waitpid(orphan, 0)

    def _import_next(self) -> bool:
        name = next(self._imports, None)
        if name is None:
            gc.collect()
            # The garbage collector of a child then skips these objects, so their memory pages stay shared.
            gc.freeze()
            return False
        with suppress(ImportError):
            import_module(name)
        return True

    def end(self) -> None:
        for pid in self._children.values():
            kill(descendants(pid))
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def fork() -> int | None:
    """Fork: 0 in the child, its pid here; None if the system refuses another process now."""
    try:
        return os.fork()
    except OSError:
        return None


def become_child(folder: bytes, conversation: int, output: int) -> None:
    """Turn this forked process into a child. Never returns."""
    try:
        os.setsid()
        for descriptor, place in ((conversation, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, place)
        # All descriptors of the template, above all the sockets of other children.
        os.closerange(3, 1 << 16)
        with suppress(OSError):
            os.chdir(folder)
        serving.begin()
    finally:
        os._exit(1)


def begin() -> None:
    # Fails on kernels without pidfds. The template then ends, and the worker starts children itself.
    os.close(os.pidfd_open(os.getpid()))
    control = socket.socket(fileno=os.dup(0))
    template = TemplateProcess(control)
    try:
        with suppress(ConnectionError):
            template.serve()
    finally:
        template.end()
    sys.exit(0)
