"""The worker's side of the template process, from which children are forked (design.md §8).

Linux only. On other systems, and if the template breaks, children are started as separate programs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path

ENTRY = Path(__file__).with_name("entry.py")
Ended = asyncio.Future[int | None]  # the exit code of a process; None if its end was not seen
HAS_TEMPLATES = sys.platform == "linux"
ANSWER_S = 5.0  # for a fork, or for the report that a child has ended; both take milliseconds
_log = logging.getLogger(__name__)


class TemplateGoneError(Exception):
    """The template cannot fork a child."""


def environment() -> dict[str, str]:
    """The variables that a program needs to start, without tokens or settings of ours."""
    names = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")
    return {name: os.environ[name] for name in names if name in os.environ}


class TemplateClient:
    """The connection to one template process, which answers requests in their order."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, answer_s: float) -> None:
        self._process, self._control, self._answer_s = process, control, answer_s
        # Answers come in the order of the requests: the template forks one child after another.
        self._awaited: deque[asyncio.Future[tuple[int, Ended]]] = deque()
        self._alive: dict[int, Ended] = {}
        self._pidfds: dict[int, int] = {}  # by pid: of children whose end has not been seen
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._read_messages)
        self.gone = False

    @classmethod
    async def start(cls, answer_s: float = ANSWER_S) -> TemplateClient:
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
        return cls(process, ours, answer_s)

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
        try:
            async with asyncio.timeout(self._answer_s):
                return await born
        except TimeoutError:
            self._give_up()
            raise TemplateGoneError from None

    async def close(self) -> None:
        """End the template with all its children."""
        self._disconnect()
        try:
            async with asyncio.timeout(self._answer_s):
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()

    def _give_up(self) -> None:
        """Kill the template if it still has not answered: it was stopped, for example by the code of a task, which runs
        as the same user. Its children go on."""
        if not self.gone:
            _log.warning("python template %d gave no answer in %g s: killed", self._process.pid, self._answer_s)
            self._disconnect()
            self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

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
                    self._watch(int(pid))
                if not born.done():  # it is done if the caller was cancelled
                    born.set_result((int(pid), ended)) if pid != b"0" else born.set_exception(TemplateGoneError())
            case [b"gone", pid, code]:
                self._unwatch(int(pid))
                self._alive.pop(int(pid)).set_result(int(code))

    def _watch(self, pid: int) -> None:
        """Detect the end of a child without the template as well: a waiting task must not depend on a stopped
        template."""
        with suppress(OSError):  # it has ended and was reported meanwhile
            self._pidfds[pid] = os.pidfd_open(pid)
            self._loop.add_reader(self._pidfds[pid], self._child_ended, pid)

    def _unwatch(self, pid: int) -> None:
        if (pidfd := self._pidfds.pop(pid, None)) is not None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    def _child_ended(self, pid: int) -> None:
        """A child has ended. The template has a while to report how."""
        self._unwatch(pid)
        ended = self._alive[pid]
        if self.gone:
            self._alive.pop(pid).set_result(None)
        else:
            self._loop.call_later(self._answer_s, self._check_reported, ended)

    def _check_reported(self, ended: Ended) -> None:
        if not ended.done():
            self._give_up()

    def _disconnect(self) -> None:
        """Close the connection: no further message will come. The end of a child that still runs is seen later."""
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._control)
        self._control.close()
        for born in self._awaited:
            if not born.done():
                born.set_exception(TemplateGoneError())
        for pid in self._alive.keys() - self._pidfds.keys():
            self._alive.pop(pid).set_result(None)
