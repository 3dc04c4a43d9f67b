"""The child's end of `child_process`: reads calls and writes answers until the parent closes the pipe."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from typing import Any

import msgspec

from noetl.base.errors import ToolError


def serve_calls(answer_to: Callable[[dict[str, Any]], bytes]) -> None:
    """Serve calls until the pipe closes. `answer_to` returns JSON and must not raise: the parent learns of an error
    only from an answer."""
    # No core dumps: the memory of the child may hold credentials.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    calls, answers = _own_pipes()
    with os.fdopen(calls, "rb") as source:
        while header := source.read(8):
            body = answer_to(msgspec.json.decode(source.read(int(header, 16))))
            frame = memoryview(b"%08x" % len(body) + body)
            while frame:  # a write to a pipe may be partial
                frame = frame[os.write(answers, frame) :]


def error_answer(problem: ToolError) -> bytes:
    """The answer to a call that failed; `ChildPool.call` raises the error again."""
    error = {"kind": problem.kind, "message": problem.message, "retryable": problem.retryable, **problem.details}
    return msgspec.json.encode({"error": error})


def refusal(kind: str, message: str, *, retryable: bool = False, **details: object) -> bytes:
    """The frame of an error answer."""
    return msgspec.json.encode({"kind": kind, "message": message, "retryable": retryable, **details})


def answer_in_fork(answer: Callable[[], bytes], error: str) -> bytes:
    """The answer that `answer` makes in a forked process, for work that changes its process for good. The fork belongs
    to the session of the child, so killing the child kills it too. `error` is the error kind if the fork dies."""
    source, target = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with os.fdopen(target, "wb") as answers:
                answers.write(answer())
        finally:
            os._exit(0)  # no exit handlers: those of the child would run twice
    # Close our copy of the writing end, or reading below would never see the end of the pipe.
    os.close(target)
    with os.fdopen(source, "rb") as answers:
        body = answers.read()
    _, status = os.waitpid(pid, 0)
    ending = os.waitstatus_to_exitcode(status)
    if body and ending == 0:
        return body
    # C++ libraries abort when an error occurs while they clean up after another one. DuckDB does so now and then when
    # the connection to an attached database breaks, and a retry may succeed. A process that was killed used too much
    # memory or time, and would again.
    is_aborted = ending == -signal.SIGABRT
    return refusal(error, f"its process ended with {ending} before it answered", retryable=is_aborted)


def _own_pipes() -> tuple[int, int]:
    """The pipes under new descriptors, so that nothing that uses the standard streams reaches them."""
    calls, answers = os.dup(0), os.dup(1)
    # A library that prints would otherwise write into the frames, and one that reads would take calls.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    return calls, answers
