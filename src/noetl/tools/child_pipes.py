"""The child's end of `child_process`: reads calls and writes what answers them, until the parent closes the pipe."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from typing import Any

import msgspec


def serve_calls(answer_to: Callable[[dict[str, Any]], bytes]) -> None:
    """`answer_to` gives an answer as JSON, whatever happens: without one nobody would know what did."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    calls, answers = _own_pipes()
    with os.fdopen(calls, "rb") as source:
        while header := source.read(8):
            body = answer_to(msgspec.json.decode(source.read(int(header, 16))))
            frame = memoryview(b"%08x" % len(body) + body)
            while frame:
                frame = frame[os.write(answers, frame) :]


def refusal(kind: str, message: str, *, retryable: bool = False, **details: object) -> bytes:
    return msgspec.json.encode({"kind": kind, "message": message, "retryable": retryable, **details})


def forked(answer: Callable[[], bytes], error: str) -> bytes:
    """An answer that is made in a process of its own, for work that changes its process for good. It is in the session
    of this one, so whoever kills the child kills it too. `error` is the kind of its sudden end."""
    source, target = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with os.fdopen(target, "wb") as answers:
                answers.write(answer())
        finally:
            os._exit(0)  # nothing of this process is to run twice
    os.close(target)
    with os.fdopen(source, "rb") as answers:
        body = answers.read()
    _, status = os.waitpid(pid, 0)
    ending = os.waitstatus_to_exitcode(status)
    if body and ending == 0:
        return body
    # Libraries in C++ abort where an error meets them while they clean up after another, as DuckDB does now and then
    # when the line to an attached database breaks: that may pass. A process that was killed asked for too much.
    is_aborted = ending == -signal.SIGABRT
    return refusal(error, f"its process ended with {ending} before it answered", retryable=is_aborted)


def _own_pipes() -> tuple[int, int]:
    """The pipes, out of reach of whatever writes to the standard streams."""
    calls, answers = os.dup(0), os.dup(1)
    # A library that prints would otherwise write into the frames.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    return calls, answers
