"""More processes of one server, which accept connections from the same socket: for machines with more than one core.

Each is a complete server on the same store, as on another machine; the store resolves conflicts. The first process
starts the others, replaces one that has died, and ends them with itself. A child receives its settings on standard
input, since they may contain a password. It ends when standard input is closed, so that no child outlives the first
process, however that ended.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec

from noetl.base.errors import RefusedError
from noetl.server.configuration import SHARED_METRICS, ServerSettings
from noetl.store.open_store import is_database

SERVES = "a further process of this server serves"
_LOOK_S = 0.5
# The pause before a dead child is replaced.
_PAUSE_S = 1.0


class ChildOrder(msgspec.Struct, frozen=True):
    """The message to a child: its settings, and the file descriptor of the listening socket."""

    settings: ServerSettings
    listening: int


@contextmanager
def shared_metrics(processes: int) -> Iterator[None]:
    """A folder in which all processes share their metrics, so that each of them can return the totals."""
    if processes == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="noetl-metrics-") as folder:
        os.environ[SHARED_METRICS] = folder
        try:
            yield
        finally:
            os.environ.pop(SHARED_METRICS, None)


def settings_per_process(settings: ServerSettings, processes: int) -> ServerSettings:
    """The settings of one process: limits of the server are divided among them. RefusedError for a store in a file."""
    if processes == 1:
        return settings
    if not is_database(settings.db):
        raise RefusedError(
            "--processes needs a store in PostgreSQL (--db postgresql://…, or what `noetl dev --cluster` brings): a"
            " store in a file has one writer at a time, so more processes would not make it faster"
        )
    return msgspec.structs.replace(settings, max_connections=max(1, settings.max_connections // processes))


class ChildServers:
    """`environment` is that of the command before the master key was removed from it: children need the key too."""

    def __init__(self, number: int, environment: Mapping[str, str]) -> None:
        self._number, self._environment = number, dict(environment)
        self._children: list[subprocess.Popen[bytes]] = []

    async def serve(self, settings: ServerSettings, listening: socket.socket) -> None:
        """Start the children and replace those that die, until cancelled; then end them all."""
        order = ChildOrder(settings, listening.fileno())
        try:
            self._children = [self._start_child(order) for _ in range(self._number)]
            while True:
                await asyncio.sleep(_LOOK_S)
                for place, child in enumerate(self._children):
                    if child.poll() is not None:
                        await self._replace(place, order)
        finally:
            await self._end(settings.drain_s + 10.0)

    async def _replace(self, place: int, order: ChildOrder) -> None:
        from noetl.server.logs import log
        from noetl.server.metrics import forget_process

        died = self._children[place]
        log.warning("a process of this server has died and is replaced", pid=died.pid, code=died.returncode)
        # The child's end of the pipe is gone, but ours must be closed.
        _close(died)
        forget_process(died.pid)
        # A child that dies at its start would otherwise be replaced in a busy loop.
        await asyncio.sleep(_PAUSE_S)
        self._children[place] = self._start_child(order)

    def _start_child(self, order: ChildOrder) -> subprocess.Popen[bytes]:
        environment = {**self._environment, SHARED_METRICS: os.environ[SHARED_METRICS]}
        child = subprocess.Popen(
            [sys.executable, "-m", "noetl.cli.server_children"],
            stdin=subprocess.PIPE,
            pass_fds=[order.listening],
            env=environment,
            # A session of its own: Ctrl-C must reach only the first process, which ends the others.
            start_new_session=True,
        )
        assert child.stdin is not None
        # If it has died already, the next check finds that.
        with suppress(BrokenPipeError):
            child.stdin.write(msgspec.json.encode(order) + b"\n")
            child.stdin.flush()
        return child

    async def _end(self, within_s: float) -> None:
        # Closing its standard input ends a child. The same happens if this process is killed.
        for child in self._children:
            _close(child)
        waiting = [asyncio.to_thread(child.wait, within_s) for child in self._children]
        for child, ended in zip(self._children, await asyncio.gather(*waiting, return_exceptions=True), strict=True):
            if isinstance(ended, subprocess.TimeoutExpired):
                child.kill()
                child.wait()


def _close(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):
        child.stdin.close()


def main() -> None:
    """The entry point of a child process."""
    from noetl.cli import own_process
    from noetl.cli.own_process import collection_paused, new_event_loop, tune_collection

    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ChildOrder)
    with collection_paused():
        from noetl.server.logs import log
        from noetl.server.server_process import Served, serve

    async def ready(_: Served) -> None:
        log.info(SERVES, pid=os.getpid())

    async def serving() -> None:
        stop = asyncio.Event()
        # Standard input becomes readable only at its end: the parent sends nothing more.
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
        with socket.socket(fileno=order.listening) as listening:
            await serve(order.settings, ready=ready, stop=stop, listening=listening)

    own_process.is_own_process = True
    tune_collection()
    own_process.protect()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serving())


if __name__ == "__main__":
    main()
