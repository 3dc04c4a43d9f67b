"""A child: reads calls, runs them, writes answers, as JSON over the socket it finds as its standard input.

Frames are a length in eight hexadecimal digits and that many bytes. Standard output and error lead to the worker too,
by a pipe of their own, so that nothing the code writes can break the conversation.
"""

from __future__ import annotations

import _thread
import json
import os
import resource
import select
import signal
import sys
from contextlib import suppress

from .answers import encoded, outcome_of  # noqa: TID252
from .capture import Captured  # noqa: TID252
from .condition import Condition  # noqa: TID252
from .processes import STARTING, adopt, descendants, end_descendants, kill  # noqa: TID252

POUR_MS = 100  # so often at most what is printed is poured
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Server:
    """Answers calls until the worker closes the socket. A process that the code forked never gets to answer."""

    def __init__(self, conversation: int, captured: Captured) -> None:
        self._conversation = conversation
        self._captured = captured
        self._starts_processes = False

    def watch(self, event: str, _: tuple[Any, ...]) -> None:
        """Before a process is started: what it leaves behind can be found, and what it prints comes in its order."""
        if event in STARTING:
            self._captured.flush_to_descriptor()
            if not self._starts_processes:
                self._starts_processes = True
                adopt()

    def serve(self) -> None:
        me, before = os.getpid(), Condition()
        with os.fdopen(self._conversation, "rb", closefd=False) as source:
            while header := source.read(8):
                call = json.loads(source.read(int(header, 16)))
                outcome = outcome_of(call, self._captured)
                if os.getpid() != me:
                    os._exit(0)
                if self._starts_processes:
                    end_descendants()
                stdout, dropped = self._captured.end(), self._captured.dropped
                self._send(encoded(outcome, stdout=stdout, dropped=dropped, clean=before.restored()))
                del call, outcome

    def _send(self, answer: bytes) -> None:
        frame = memoryview(b"%08x" % len(answer) + answer)
        while frame:
            frame = frame[os.write(self._conversation, frame) :]


def end_with_worker(conversation: int, woken: int, captured: Captured) -> None:
    """Wait until the other end of the socket is gone, then end everything this process started, itself included: a
    task whose worker was killed must not go on beside the one that takes its place. Meanwhile pour what the code
    prints, shortly after it woke us: a thread of its own would count among those that the task may have."""
    worker, both = select.poll(), select.poll()
    for poll in (worker, both):
        poll.register(conversation, 0)
    both.register(woken, select.POLLIN)
    while not is_gone(ready := both.poll()):
        if ready:
            os.read(woken, 4096)
            if is_gone(worker.poll(POUR_MS)):
                break
            captured.pour()
    kill(descendants(os.getpid()))
    os.killpg(0, signal.SIGKILL)


def is_gone(ready: list[tuple[int, int]]) -> bool:
    return any(event & select.POLLHUP for _, event in ready)


def begin() -> None:
    """Serve, and end. Whoever calls this is in a session of its own."""
    conversation = os.dup(0)
    # The code must not read the conversation as its standard input.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the data of the playbook
    woken, wake = os.pipe()
    captured = Captured(wake)
    # the plain way: nobody waits until it runs
    _thread.start_new_thread(end_with_worker, (conversation, woken, captured))
    # a forked process that held it open would keep the worker waiting for an answer after our own end
    os.register_at_fork(after_in_child=lambda: let_go(conversation))
    server = Server(conversation, captured)
    sys.addaudithook(server.watch)
    with suppress(OSError):
        sys.path.insert(0, os.getcwd())  # `-I` leaves it out; the author's own modules are beside the playbook
    server.serve()


def let_go(conversation: int) -> None:
    with suppress(OSError):
        os.close(conversation)
