"""Live output: the lines that the tasks of a worker print, sent while they run (best effort).

Nothing waits for it. A task run keeps a bounded number of unsent lines. Several times a second one request sends the
lines of all task runs. Lines that cannot be sent are dropped and counted. The log of a task run is in its report: the
tool returns it, or, where the tool was stopped at its time limit, `TaskOutput.printed` does.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from noetl.base.errors import NoetlError
from noetl.base.redaction import Mask, MaskedLines
from noetl.events.orders import MAX_BATCH_BYTES, OutputBatch, OutputChunk, OutputStream

# Often enough to be live, and at most four requests a second from a worker, however much its tasks print.
EVERY_S = 0.25
SEND_S = 5.0  # lines are dropped if the server takes longer
MAX_LINES = 500  # unsent lines of one task run
MAX_CHARACTERS = 64 * 1024
_BATCH = MAX_BATCH_BYTES // 8  # characters: each may take six bytes as JSON
# Characters of a task run that are kept for its report: the first lines, and the last ones, since they say where the
# task hung. Together less than half an event, more of which a report would cut.
HEAD, TAIL = 8_000, 20_000

_log = logging.getLogger(__name__)

Send = Callable[[OutputBatch], Awaitable[object]]


class PrintedLines:
    """The first and the last lines of a text, however long it becomes."""

    def __init__(self) -> None:
        self._first, self._last = list[str](), deque[str]()
        self._first_size = self._last_size = self._dropped = 0

    def add(self, line: str) -> None:
        size = len(line) + 1
        # Nothing goes back to the beginning once a line was too long for it: the order would be lost.
        if not self._last and self._first_size + size <= HEAD:
            self._first.append(line)
            self._first_size += size
            return
        self._last.append(line)
        self._last_size += size
        while self._last_size > TAIL and len(self._last) > 1:
            self._last_size -= len(self._last.popleft()) + 1
            self._dropped += 1

    def text(self, rest: list[str]) -> str | None:
        """The whole text, with a note where lines are missing; None if there is none. `rest` are lines without an
        end."""
        gap = [f"… {self._dropped} lines left out …"] if self._dropped else []
        return "\n".join([*self._first, *gap, *self._last, *rest]) or None


class TaskOutput:
    """The output of one task run: turns the bytes that its tool reads into masked lines. Without `pending` no lines are
    sent anywhere."""

    def __init__(self, of: OutputChunk, mask: Mask, pending: Callable[[TaskOutput], None] | None = None) -> None:
        self._of, self._mask, self._tell_pending = of, mask, pending
        self._printed = PrintedLines()
        # Incremental: a chunk may end in the middle of a character.
        self._decoders: dict[OutputStream, codecs.IncrementalDecoder] = {}
        self._masked: dict[OutputStream, MaskedLines] = {}
        self._lines: deque[tuple[OutputStream, str]] = deque()
        self._size = self._dropped = 0
        self._is_over = False

    def write(self, data: bytes, stream: OutputStream = "stdout") -> None:
        """Called by a tool with the bytes it has read."""
        if self._is_over:
            return
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
            self._masked[stream] = MaskedLines(self._mask)
        for line in self._masked[stream].feed(self._decoders[stream].decode(data)):
            self._printed.add(line)
            if self._tell_pending is None:
                continue
            self._lines.append((stream, line))
            self._size += len(line) + 1
            while len(self._lines) > MAX_LINES or self._size > MAX_CHARACTERS:
                # The oldest line is dropped: viewers want to see where the task is now.
                self._pop()
                self._dropped += 1
        if self._lines and self._tell_pending is not None:
            self._tell_pending(self)

    def printed(self) -> str | None:
        """The output of the task, masked, its beginning and its end; for a report whose tool was stopped."""
        return self._printed.text([line for masked in self._masked.values() for line in masked.rest()])

    def end(self) -> None:
        """The tool has ended or was stopped: its report will have the output, so send nothing more."""
        self._is_over = True
        self._lines.clear()

    def take(self, most: int) -> list[OutputChunk]:
        """Remove lines to send, at most `most` characters. Adjacent lines of one stream form one chunk."""
        found: list[tuple[OutputStream, list[str]]] = []
        while self._lines and most > 0:
            stream, line = self._pop()
            most -= len(line) + 1
            if not found or found[-1][0] != stream:
                found.append((stream, []))
            found[-1][1].append(line)
        dropped = self._dropped
        # The count goes with the next lines that are sent.
        self._dropped = 0 if found else dropped
        return [
            msgspec.structs.replace(self._of, stream=stream, lines=tuple(lines), dropped=0 if at else dropped)
            for at, (stream, lines) in enumerate(found)
        ]

    @property
    def is_pending(self) -> bool:
        return bool(self._lines)

    def note_unsent(self, chunk: OutputChunk) -> None:
        self._dropped += len(chunk.lines) + chunk.dropped

    def _pop(self) -> tuple[OutputStream, str]:
        stream, line = self._lines.popleft()
        self._size -= len(line) + 1
        return stream, line


class OutputSender:
    """Sends the output of the task runs of one worker."""

    def __init__(self, worker_id: str, send: Send) -> None:
        self._worker_id, self._send = worker_id, send
        self._pending: dict[TaskOutput, None] = {}
        self._sending: asyncio.Task[None] | None = None

    def output(self, of: OutputChunk, mask: Mask) -> TaskOutput:
        """The output of the task run that `of` names."""
        return TaskOutput(of, mask, self._note)

    def _note(self, output: TaskOutput) -> None:
        self._pending[output] = None
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_pending())

    async def _send_pending(self) -> None:
        try:
            while self._pending:
                await asyncio.sleep(EVERY_S)
                await self._send_batch()
        finally:
            self._sending = None

    async def _send_batch(self) -> None:
        room, taken = _BATCH, list[tuple[TaskOutput, OutputChunk]]()
        for output in list(self._pending):
            del self._pending[output]
            for chunk in output.take(room):
                taken.append((output, chunk))
                room -= sum(len(line) + 1 for line in chunk.lines)
            if output.is_pending:
                self._pending[output] = None  # the next batch begins with others
            if room <= 0:
                break
        if not taken:
            return
        try:
            async with asyncio.timeout(SEND_S):
                await self._send(OutputBatch(worker_id=self._worker_id, chunks=tuple(chunk for _, chunk in taken)))
        except (NoetlError, TimeoutError) as problem:
            _log.debug("live output was not sent: %s", problem)
            for output, chunk in taken:
                output.note_unsent(chunk)

    async def close(self) -> None:
        """Send nothing more."""
        self._pending.clear()
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({self._sending})
