"""More processes of one server, which accept connections from the same socket: for machines with more than one core.

Each is a whole server on the same store, as another machine's would be; the store decides between them. The first one
starts the others, replaces one that has died, and ends them with itself. A child hears its settings on standard input,
since they may hold a password. It ends when that is closed, so that none outlives the first one, however that ended.
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
_PAUSE_S = 1.0  # before one that has died is replaced


class ChildOrder(msgspec.Struct, frozen=True):
    """What a child is told: the socket is open in it under this number."""

    settings: ServerSettings
    listening: int


@contextmanager
def shared_figures(processes: int) -> Iterator[None]:
    """A folder in which all processes count, so that whichever is asked for metrics tells those of all."""
    if processes == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="noetl-metrics-") as folder:
        os.environ[SHARED_METRICS] = folder
        try:
            yield
        finally:
            os.environ.pop(SHARED_METRICS, None)


def settings_of_each(settings: ServerSettings, processes: int) -> ServerSettings:
    """What is allowed to a server is divided among its processes. RefusedError where the store is a file."""
    if processes == 1:
        return settings
    if not is_database(settings.db):
        raise RefusedError(
            "--processes needs a store in PostgreSQL (--db postgresql://…, or what `noetl dev --cluster` brings): a"
            " store in a file has one writer at a time, so more processes would not make it faster"
        )
    return msgspec.structs.replace(settings, max_connections=max(1, settings.max_connections // processes))


class ChildServers:
    """`environment` is that of the command before its master key was taken out of it: children need it too."""

    def __init__(self, number: int, environment: Mapping[str, str]) -> None:
        self._number, self._environment = number, dict(environment)
        self._children: list[subprocess.Popen[bytes]] = []

    async def serve(self, settings: ServerSettings, listening: socket.socket) -> None:
        """Start them, and replace whichever dies, until cancelled; then end them all."""
        order = ChildOrder(settings, listening.fileno())
        try:
            self._children = [self._started(order) for _ in range(self._number)]
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
        # Its end of the pipe is gone, but ours stays open until it is closed.
        _close(died)
        forget_process(died.pid)
        # A child that dies at its start would otherwise be replaced in a busy loop.
        await asyncio.sleep(_PAUSE_S)
        self._children[place] = self._started(order)

    def _started(self, order: ChildOrder) -> subprocess.Popen[bytes]:
        environment = {**self._environment, SHARED_METRICS: os.environ[SHARED_METRICS]}
        child = subprocess.Popen(
            [sys.executable, "-m", "noetl.cli.server_children"],
            stdin=subprocess.PIPE,
            pass_fds=[order.listening],
            env=environment,
            start_new_session=True,  # Ctrl-C is for the first one, which ends the others
        )
        assert child.stdin is not None
        with suppress(BrokenPipeError):  # it has died already, which the next look will find
            child.stdin.write(msgspec.json.encode(order) + b"\n")
            child.stdin.flush()
        return child

    async def _end(self, within_s: float) -> None:
        # The end of its standard input tells a child to stop; it also ends when this process dies without a word.
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
    """The life of a child."""
    from noetl.cli import own_process
    from noetl.cli.own_process import look_rarely, new_event_loop, not_looking

    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ChildOrder)
    with not_looking():
        from noetl.server.logs import log
        from noetl.server.server_process import Served, serve

    async def ready(_: Served) -> None:
        log.info(SERVES, pid=os.getpid())

    async def serving() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)  # nothing more comes but its end
        with socket.socket(fileno=order.listening) as listening:
            await serve(order.settings, ready=ready, stop=stop, listening=listening)

    own_process.is_own_process = True
    look_rarely()
    own_process.protect()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serving())


if __name__ == "__main__":
    main()
