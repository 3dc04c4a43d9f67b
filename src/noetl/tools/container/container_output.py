"""What a container prints: told as it comes, kept up to a limit; and how it ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.orders import OutputStream
from noetl.tools.container.container_task import ContainerTask
from noetl.tools.contract import ToolContext, ToolResult

MAX_TOLD = 4_000  # characters of each stream that an error tells
_HEADER = 8  # bytes: the stream, three zeros, the length
# Docker frames output by eight bytes: the stream, three zeros, and the length.
_STREAMS: dict[int, OutputStream] = {0: "stdout", 1: "stdout", 2: "stderr"}


class EndedContainer(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int
    is_out_of_memory: bool = False
    artifacts: tuple[dict[str, Any], ...] = ()


class ContainerOutput:
    """Both streams of one container. The beginning is kept; the rest only passes by."""

    def __init__(self, limit: int, context: ToolContext) -> None:
        self._limit, self._printed = limit, context.printed
        self._kept: dict[OutputStream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._taken: dict[OutputStream, int] = {"stdout": 0, "stderr": 0}
        self.is_truncated = False

    def take(self, data: bytes, stream: OutputStream = "stdout") -> None:
        self._taken[stream] += len(data)
        kept = self._kept[stream]
        room = self._limit - len(kept)
        kept += data[: max(room, 0)]
        self.is_truncated = self.is_truncated or len(data) > room
        if self._printed is not None:
            self._printed(data, stream)

    def text(self, stream: OutputStream) -> str:
        return self._kept[stream].decode("utf-8", "replace")

    async def take_frames(self, parts: AsyncIterator[bytes], *, from_beginning: bool = False) -> None:
        """Docker's log: each piece behind a header that says whose it is. A piece is never held as a whole, however
        long its header says it is. What was taken before is passed over when it comes once more `from_beginning`.
        ValueError where it is no such log."""
        header, left, stream = b"", 0, _STREAMS[1]
        known = dict(self._taken) if from_beginning else dict.fromkeys(self._taken, 0)
        async for part in parts:
            rest = memoryview(part)
            while rest:
                if left:
                    piece, rest = rest[:left], rest[left:]
                    left -= len(piece)
                    again = min(known[stream], len(piece))
                    known[stream] -= again
                    if len(piece) > again:
                        self.take(bytes(piece[again:]), stream)
                    continue
                wanted = _HEADER - len(header)
                header, rest = header + bytes(rest[:wanted]), rest[wanted:]
                if len(header) == _HEADER:
                    if header[0] not in _STREAMS or header[1:4] != b"\0\0\0":
                        raise ValueError("its log is not in frames")
                    stream, left, header = _STREAMS[header[0]], int.from_bytes(header[4:], "big"), b""


def result_of(ended: EndedContainer, output: ContainerOutput, task: ContainerTask, context: ToolContext) -> ToolResult:
    """The result, or ToolError `container.exit` or `container.oom` where the container says that it failed."""
    code, fine = ended.exit_code, context.spec.get("ok_exit_codes") or []
    stdout, stderr = output.text("stdout"), output.text("stderr")
    if ended.is_out_of_memory or (code != 0 and code not in (fine if isinstance(fine, list) else [])):
        masked_err = context.masked(stderr)
        raise ToolError(
            "container.oom" if ended.is_out_of_memory else "container.exit",
            f"the container {_how(ended, task)}{_last_line(masked_err)}",
            code=str(code),
            exit_code=code,
            stdout=context.masked(stdout)[-MAX_TOLD:],
            stderr=masked_err[-MAX_TOLD:],
        )
    result: dict[str, Any] = {"exit_code": code, "stdout": stdout, "stderr": stderr, "name": task.name}
    if output.is_truncated:
        result["truncated"] = True
    if task.artifacts:
        result["artifacts"] = list(ended.artifacts)
    return ToolResult(result=result, helpers={"container": {"exit_code": code}})


def _how(ended: EndedContainer, task: ContainerTask) -> str:
    limit = f" of {task.memory_bytes >> 20} MiB" if task.memory_bytes else ""
    if ended.is_out_of_memory:
        return f"was killed: it needed more memory than its limit{limit} (spec.resources.memory)"
    # Some engines do not say who killed it; with a limit of memory that is the likeliest reason.
    hint = f", perhaps for more memory than its limit{limit}" if ended.exit_code == 137 and limit else ""
    return f"ended with code {ended.exit_code}{hint}"


def _last_line(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return f": {''.join(sign if sign.isprintable() else ' ' for sign in lines[-1])[:400]}" if lines else ""
