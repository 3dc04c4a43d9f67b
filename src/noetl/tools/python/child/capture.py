"""What the code prints, as it will be reported. What is written past it, straight to the descriptors, the worker
reads from a pipe (`noetl.tools.python.process`)."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

LIMIT = 64 * 1024  # characters of standard output that are kept


class Captured(io.TextIOBase):
    """The beginning of what is printed, and how much more there was. One serves a process for its whole life, since
    the code may have kept it, in a log handler for one."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._room = LIMIT
        self.dropped = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._room]
        if kept:
            self._kept.append(kept)
        self._room -= len(kept)
        self.dropped += len(text) - len(kept)
        return len(text)

    def clear(self) -> None:
        self._kept, self._room, self.dropped = [], LIMIT, 0

    def text(self) -> str:
        """What is kept, such as it can be sent."""
        return "".join(self._kept).encode("utf-8", "replace").decode()

    def flush_to_descriptor(self) -> None:
        """Write what is kept to the descriptor, so that what a process prints from now on comes after it."""
        poured = memoryview(self.text().encode())
        self._kept = []
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
