"""What a child, or anything it starts, writes straight to its standard output and error (O-11).

It is read as it comes, so that nobody ever waits for us, and all but its beginning is dropped.
"""

from __future__ import annotations

import asyncio
import os

LIMIT = 64 * 1024  # bytes that are kept; also what a pipe holds


class Output:
    """The reading end of a child's pipe. `writer` is the other end, to be closed once the child has it."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._read)
        self._kept = bytearray()
        self._dropped = 0

    def clear(self) -> None:
        """Forget what came before: it belongs to nobody."""
        self._read()
        self._kept.clear()
        self._dropped = 0

    def text(self, printed: str = "", dropped: int = 0) -> str:
        """Everything written so far and what was `printed` besides, cut. `dropped` were cut from the latter before."""
        self._read()  # once is all of it: the pipe holds no more
        whole = self._kept.decode("utf-8", "replace") + printed
        dropped += self._dropped + max(len(whole) - LIMIT, 0)
        return whole[:LIMIT] + (f"\n... {dropped} more characters" if dropped else "")

    def close(self) -> None:
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self) -> None:
        if self._reader < 0:
            return
        try:
            data = os.read(self._reader, LIMIT)
        except BlockingIOError:
            return
        if not data:  # nobody is left who could write
            self.close()
        kept = data[: LIMIT - len(self._kept)]
        self._kept += kept
        self._dropped += len(data) - len(kept)
