"""The process that others are forked from: it has imported what `noetl` needs, and has done nothing yet.

It runs as `python -m tests.forked.template FD`, where FD is its end of the connection with the tests, and ends with
that connection.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import pkgutil
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from tests.forked.messages import Request, receive, tell_end

# Imported by what a server, a worker, a run and a check do first, beyond what the commands import. A server would
# otherwise import its routes, and build their models, in 0.2 s of processor each time.
PACKAGES = (
    "noetl.cli",
    "noetl.language.proving",
    "noetl.server",
    "noetl.store.postgres",
    "noetl.store.sqlite",
    "noetl.worker",
)
MODULES = (
    "ctypes",
    "noetl.operations.embedded",
    "noetl.store.inspection",
    "noetl.tools.python.tool",
    "noetl.tools.shell.tool",
)


def main() -> None:
    peer = socket.socket(fileno=int(sys.argv[1]))
    _import_all()
    gc.collect()
    gc.freeze()  # so that a collection in a fork touches, and copies, none of this
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pipes: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([peer.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 512)
        _tell_ended(pipes)
        if peer.fileno() not in ready:
            continue
        if (asked := receive(peer)) is None:
            break
        request, (*standard, pipe) = asked
        if (number := os.fork()) == 0:
            _become(request, standard, (peer.fileno(), woken, wake, pipe, *pipes.values()))
        for file in standard:
            os.close(file)
        pipes[number] = pipe
        peer.send(str(number).encode())
    for number in pipes:
        os.kill(number, signal.SIGKILL)  # no process is left to end them


def _import_all() -> None:
    for name in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    for name in MODULES:
        importlib.import_module(name)


def _tell_ended(pipes: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            tell_end(pipes.pop(ended[0]), ended[1])


def _become(request: Request, standard: list[int], others: tuple[int, ...]) -> NoReturn:
    """Be what `python -m noetl.cli.main ARGUMENTS` would be; never return."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in others:
            os.close(file)
        for number, file in enumerate(standard):
            os.dup2(file, number)
            os.close(file)
        if request.is_session_leader:
            os.setsid()
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(request.environment)
        time.tzset()
        _open_standard_streams()
        sys.path[0] = request.folder
        sys.argv = ["noetl", *request.arguments]
        code = _run()
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def _open_standard_streams() -> None:
    """As the interpreter does when it starts."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _writing(1, errors="strict", by_line=os.isatty(1))
    sys.stderr = _writing(2, errors="backslashreplace", by_line=True)


def _writing(number: int, *, errors: str, by_line: bool) -> io.TextIOWrapper:
    raw = open(number, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=by_line)


def _run() -> int:
    from noetl.cli.main import main as noetl

    try:
        noetl()
    except SystemExit as end:
        code = end.code
        return code if isinstance(code, int) else 0 if code is None else 1
    finally:
        _end()
    return 0


def _end() -> None:
    """As the interpreter ends: threads, what was registered for the end, what was written."""
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


if __name__ == "__main__":
    main()
