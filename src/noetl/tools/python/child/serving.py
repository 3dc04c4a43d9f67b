"""A child: reads calls, runs them and writes answers, as JSON over the socket that is its standard input.

A frame is a length in eight hexadecimal digits and that many bytes. Standard output and error use a pipe of their own
to the worker, so that output of the code cannot break the protocol.
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

from .answers import call_outcome, encoded_answer  # noqa: TID252
from .capture import Captured  # noqa: TID252
from .condition import (  # noqa: TID252
    STARTING,
    ProcessState,
    adopt,
    descendants,
    end_descendants,
    kill,
)

FLUSH_MS = 100  # live output is flushed at most this often
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
        """An audit hook. Before the code starts a process: flush, so that output keeps its order, and adopt orphans."""
        if event in STARTING:
            self._captured.flush_to_descriptor()
            if not self._starts_processes:
                self._starts_processes = True
                adopt()

    def serve(self) -> None:
        me, before = os.getpid(), ProcessState()
        with os.fdopen(self._conversation, "rb", closefd=False) as source:
            while header := source.read(8):
                call = json.loads(source.read(int(header, 16)))
                outcome = call_outcome(call, self._captured)
                # A process that the code forked has returned from the code: it must not answer as well.
                if os.getpid() != me:
                    os._exit(0)
                if self._starts_processes:
                    end_descendants()
                stdout, dropped = self._captured.end(), self._captured.dropped
                self._send(encoded_answer(outcome, stdout=stdout, dropped=dropped, clean=before.restore()))
                del call, outcome  # or their memory would be held while the child waits for the next call

    def _send(self, answer: bytes) -> None:
        frame = memoryview(b"%08x" % len(answer) + answer)
        while frame:
            frame = frame[os.write(self._conversation, frame) :]


def end_with_worker(conversation: int, woken: int, captured: Captured) -> None:
    """Wait until the worker's end of the socket is closed, then end this process and all its descendants: a task whose
    worker was killed must not run on beside the attempt that replaces it. Meanwhile flush live output shortly after the
    code wrote it. This thread does both, since every thread counts against the limit of the task."""
    worker, both = select.poll(), select.poll()
    for poll in (worker, both):
        poll.register(conversation, 0)
    both.register(woken, select.POLLIN)
    while not is_gone(ready := both.poll()):
        if ready:
            os.read(woken, 4096)
            if is_gone(worker.poll(FLUSH_MS)):
                break
            captured.flush_live()
    kill(descendants(os.getpid()))
    os.killpg(0, signal.SIGKILL)


def is_gone(ready: list[tuple[int, int]]) -> bool:
    return any(event & select.POLLHUP for _, event in ready)


def begin() -> None:
    """Serve calls until the socket closes. The caller has made this process the leader of a session."""
    conversation = os.dup(0)
    # The code must not read the socket as its standard input.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the data of the playbook
    woken, wake = os.pipe()
    captured = Captured(wake)
    # `_thread`, since `threading` would wait until the thread runs.
    _thread.start_new_thread(end_with_worker, (conversation, woken, captured))
    # If a forked process kept the socket open, the worker would wait for an answer after the end of this process.
    os.register_at_fork(after_in_child=lambda: close_quietly(conversation))
    server = Server(conversation, captured)
    sys.addaudithook(server.watch)
    with suppress(OSError):
        sys.path.insert(0, os.getcwd())  # `-I` leaves it out; the author's own modules are beside the playbook
    server.serve()


def close_quietly(conversation: int) -> None:
    with suppress(OSError):
        os.close(conversation)
