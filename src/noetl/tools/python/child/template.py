"""The template: a clean process that forks children on request, so that each begins with Python already started.

It never runs code of a playbook. Over the socket it finds as its standard input come requests, the text of a working
folder with two descriptors: a child's conversation and its output. It tells `born PID` (0: there is no room) and, when
one has ended, `gone PID CODE`. While nobody asks, it imports what code commonly uses. When the worker is gone, it
ends all children.
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
from .processes import adopt, children, descendants, kill  # noqa: TID252

COMMON = (  # in an order that keeps every import short, since a request waits for the one at hand
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
REST_MS = 20  # of nobody asking, before it begins to import: a short run is over by then


class TemplateProcess:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, int] = {}  # pid by pidfd
        self._imports = iter(COMMON)
        self._adopts = False
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        rest_ms: int | None = REST_MS
        while True:
            ready = self._poll.poll(rest_ms)
            for descriptor, _ in ready:
                if descriptor in self._children:
                    self._reap(descriptor)
                elif not self._request():
                    return
            if not ready:
                rest_ms = 0 if self._import_next() else None

    def _request(self) -> bool:
        """Fork one child; False when the worker is gone."""
        folder, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 2)
        if len(descriptors) != 2:
            return False
        pid = forked()
        if pid == 0:
            become_child(folder, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid is not None:
            watched = os.pidfd_open(pid)
            self._children[watched] = pid
            self._poll.register(watched, select.POLLIN)
        if not self._adopts:
            self._adopts = True
            adopt()  # while the first child begins, and before it is given code, which may start a process and crash
        self._control.send(b"born %d" % (pid or 0))
        return True

    def _reap(self, watched: int) -> None:
        """Tell that a child has ended, once what it left behind is ended too."""
        pid = self._children.pop(watched)
        self._poll.unregister(watched)
        os.close(watched)
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
            gc.freeze()  # children look through what they made themselves, and copy no pages for the rest
            return False
        with suppress(ImportError):
            import_module(name)
        return True

    def end(self) -> None:
        for pid in self._children.values():
            kill(descendants(pid))
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def forked() -> int | None:
    """0 in the child, its pid here; None where the system has no room for another process now."""
    try:
        return os.fork()
    except OSError:
        return None


def become_child(folder: bytes, conversation: int, output: int) -> None:
    """Be a child from here on, with nothing of the template's. It never comes back."""
    try:
        os.setsid()
        for descriptor, place in ((conversation, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, place)
        # Everything of the template's, above all the sockets of other children.
        os.closerange(3, 1 << 16)
        with suppress(OSError):
            os.chdir(folder)
        serving.begin()
    finally:
        os._exit(1)


def begin() -> None:
    os.close(os.pidfd_open(os.getpid()))  # without these there is no template: the worker starts children itself
    control = socket.socket(fileno=os.dup(0))
    template = TemplateProcess(control)
    try:
        with suppress(ConnectionError):
            template.serve()
    finally:
        template.end()
    sys.exit(0)
