"""What the code prints, as it will be reported. What is written past it, straight to the descriptors, the worker
reads from a pipe (`noetl.tools.python.process`). Where somebody looks while the code runs, what it prints is poured
into that pipe too, some times a second, by the thread that watches over the process (`serving`)."""

from __future__ import annotations

import _thread
import io
import os
import sys
from contextlib import suppress

LIMIT = 64 * 1024  # characters of standard output that are kept


class Captured(io.TextIOBase):
    """The beginning of what is printed, and how much more there was. One serves a process for its whole life, since
    the code may have kept it, in a log handler for one. While it is `live`, `wake` is written to when there is
    something to pour."""

    def __init__(self, wake: int) -> None:
        self._wake = wake
        self._is_live = self._is_woken = False
        self._kept: list[str] = []
        self._room = LIMIT
        self.dropped = 0
        self._told_dropped = 0
        self._renew_lock()
        os.register_at_fork(after_in_child=self._renew_lock)  # who held it is not in the forked process

    def _renew_lock(self) -> None:
        self._pouring = _thread.RLock()  # a signal handler of the code may start a process at any time

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._room]
        if kept:
            self._kept.append(kept)
        self._room -= len(kept)
        self.dropped += len(text) - len(kept)
        if self._is_live and not self._is_woken and kept:
            self._is_woken = True
            with suppress(OSError):
                os.write(self._wake, b".")
        return len(text)

    def begin(self, *, live: bool) -> None:
        """A call begins: what came before it is forgotten."""
        self._kept, self._room, self.dropped, self._told_dropped = [], LIMIT, 0, 0
        self._is_live, self._is_woken = live, False

    def end(self) -> str:
        """A call is over: what is kept and was not poured, such as it can be sent."""
        with self._pouring:  # what is being poured is in the pipe before the answer is sent
            self._is_live = False
            return self._text()

    def _text(self) -> str:
        return "".join(self._kept).encode("utf-8", "replace").decode()

    def pour(self) -> None:
        """While it is live: write what is kept to the descriptor, and make room for as much again. The worker keeps
        the beginning of it all."""
        with self._pouring:
            if self._is_live:
                self._is_woken = False
                self._tell_dropped()
                self._write_kept()
                self._room = LIMIT

    def _tell_dropped(self) -> None:
        """Say what is missing after what is kept; the worker counts these words among the rest that it drops."""
        if self.dropped > self._told_dropped:
            words = f"\n... {self.dropped - self._told_dropped} characters were printed too fast to be shown\n"
            self._kept.append(words)
            self.dropped -= len(words)
            self._told_dropped = self.dropped

    def flush_to_descriptor(self) -> None:
        """Write what is kept to the descriptor, so that what a process prints from now on comes after it."""
        with self._pouring:
            self._write_kept()

    def _write_kept(self) -> None:
        kept, self._kept = self._kept, []
        poured = memoryview("".join(kept).encode("utf-8", "replace"))
        with suppress(OSError):
            while poured:
                poured = poured[os.write(1, poured) :]


def flush() -> None:
    """Have everything written that Python and the C library still hold back."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(Exception):
            stream.flush()  # type: ignore[union-attr]
    ctypes = sys.modules.get("ctypes")  # without it, hardly a library wrote anything
    if ctypes is not None:
        with suppress(Exception):
            ctypes.pythonapi.fflush(None)
