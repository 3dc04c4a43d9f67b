"""Captures the printed output of the code. The worker reads output that bypasses it, straight to the descriptors,
from a pipe (`noetl.tools.python.process`). If the run is watched, the captured output goes into that pipe too,
several times a second, written by the thread that watches the worker's socket (`serving`)."""

from __future__ import annotations

import _thread
import io
import os
import sys
from contextlib import suppress

LIMIT = 64 * 1024  # characters of standard output in the answer


class Captured(io.TextIOBase):
    """The beginning of the output, and the number of dropped characters. One instance serves a process for its whole
    life, since the code may keep a reference, for example in a log handler. While it is `live`, it writes to `wake`
    when there is output to flush."""

    def __init__(self, wake: int) -> None:
        self._wake = wake
        self._is_live = self._is_woken = False
        self._chunks: list[str] = []
        self._room = LIMIT
        self.dropped = 0
        self._reported_dropped = 0
        self._renew_lock()
        # The thread that holds the lock does not exist in a forked process: there the lock would never be released.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        # Reentrant: a signal handler of the code may start a process, and so flush, while this thread holds the lock.
        self._flushing = _thread.RLock()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._room]
        if kept:
            self._chunks.append(kept)
        self._room -= len(kept)
        self.dropped += len(text) - len(kept)
        if self._is_live and not self._is_woken and kept:
            self._is_woken = True
            with suppress(OSError):
                os.write(self._wake, b".")
        return len(text)

    def begin(self, *, live: bool) -> None:
        """Start a call: forget the output of the call before."""
        self._chunks, self._room, self.dropped, self._reported_dropped = [], LIMIT, 0, 0
        self._is_live, self._is_woken = live, False

    def end(self) -> str:
        """End a call. Returns the captured output that was not flushed, as valid UTF-8."""
        # Waits for a flush in progress: its output must be in the pipe before the answer is sent.
        with self._flushing:
            self._is_live = False
            return self._text()

    def _text(self) -> str:
        return "".join(self._chunks).encode("utf-8", "replace").decode()

    def flush_live(self) -> None:
        """If live: write the captured output to the descriptor, and make room for as much again. The worker keeps the
        beginning of the whole output."""
        with self._flushing:
            if self._is_live:
                self._is_woken = False
                self._report_dropped()
                self._write_chunks()
                self._room = LIMIT

    def _report_dropped(self) -> None:
        """Append a note on dropped output. The worker counts the note among the characters that it drops."""
        if self.dropped > self._reported_dropped:
            note = f"\n... {self.dropped - self._reported_dropped} characters were printed too fast to be shown\n"
            self._chunks.append(note)
            # The note itself travels through the pipe, where the worker counts it: take it off to count it once.
            self.dropped -= len(note)
            self._reported_dropped = self.dropped

    def flush_to_descriptor(self) -> None:
        """Write the captured output to the descriptor, so that the output of a new process comes after it."""
        with self._flushing:
            self._write_chunks()

    def _write_chunks(self) -> None:
        chunks, self._chunks = self._chunks, []
        unwritten = memoryview("".join(chunks).encode("utf-8", "replace"))
        with suppress(OSError):
            while unwritten:
                unwritten = unwritten[os.write(1, unwritten) :]


def flush() -> None:
    """Flush the buffers of Python and the C library."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(Exception):
            stream.flush()  # type: ignore[union-attr]
    ctypes = sys.modules.get("ctypes")  # if nothing has loaded it, hardly any C code wrote output
    if ctypes is not None:
        with suppress(Exception):
            ctypes.pythonapi.fflush(None)
