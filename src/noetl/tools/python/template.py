"""The worker's side of the template process, from which children are forked (design.md §8).

Linux only. On other systems, and if the template breaks, children are started as separate programs.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from pathlib import Path

ENTRY = Path(__file__).with_name("entry.py")
Ended = asyncio.Future[int | None]  # the exit code of a process; None if its end was not seen
HAS_TEMPLATES = sys.platform == "linux"


class TemplateGoneError(Exception):
    """The template cannot fork a child."""


def environment() -> dict[str, str]:
    """The variables that a program needs to start, without tokens or settings of ours."""
    names = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")
    return {name: os.environ[name] for name in names if name in os.environ}


class TemplateClient:
    """The connection to one template process, which answers requests in their order."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process, self._control = process, control
        # Answers come in the order of the requests: the template forks one child after another.
        self._awaited: deque[asyncio.Future[tuple[int, Ended]]] = deque()
        self._alive: dict[int, Ended] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._read_messages)
        self.gone = False

    @classmethod
    async def start(cls) -> TemplateClient:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(ENTRY), "template"),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env=environment(),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    async def fork(self, conversation: int, output: int) -> tuple[int, Ended]:
        """The pid of a new child, and a future of its end. A caller that is cancelled closes its end of the socket, and
        the child then ends itself."""
        if self.gone:
            raise TemplateGoneError
        try:
            socket.send_fds(self._control, [os.fsencode(os.getcwd())], [conversation, output])
        except OSError as problem:  # busy, or gone
            raise TemplateGoneError from problem
        born: asyncio.Future[tuple[int, Ended]] = self._loop.create_future()
        self._awaited.append(born)
        return await born

    async def close(self) -> None:
        """End the template with all its children."""
        self._disconnect()
        await self._process.wait()

    def _read_messages(self) -> None:
        try:
            while message := self._control.recv(64):
                self._handle(message.split())
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        self._disconnect()

    def _handle(self, words: list[bytes]) -> None:
        match words:
            case [b"born", pid]:
                born = self._awaited.popleft()
                ended = self._loop.create_future()
                if pid != b"0":
                    self._alive[int(pid)] = ended
                if not born.done():  # it is done if the caller was cancelled
                    born.set_result((int(pid), ended)) if pid != b"0" else born.set_exception(TemplateGoneError())
            case [b"gone", pid, code]:
                self._alive.pop(int(pid)).set_result(int(code))

    def _disconnect(self) -> None:
        """Close the connection and settle all futures: no further message will come."""
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._control)
        self._control.close()
        for born in self._awaited:
            if not born.done():
                born.set_exception(TemplateGoneError())
        for ended in self._alive.values():
            ended.set_result(None)
        self._alive.clear()
