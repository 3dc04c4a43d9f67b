"""Numbers as they were after each event that changed them, so that any moment of a log can be looked at again.

Four bytes for each number of a change, and a search of the changes to read one. A log of 100,000 events takes a few
megabytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right


class NumberHistory:
    """Some numbers that belong together, `width` of them, by the number of the event they changed with."""

    __slots__ = ("_numbers", "_seqs", "_width")

    def __init__(self, width: int = 1) -> None:
        self._width = width
        self._seqs, self._numbers = array("I"), array("I")

    @property
    def size_bytes(self) -> int:
        return 4 * (len(self._seqs) + len(self._numbers))

    def put(self, seq: int, *numbers: int) -> None:
        """What the numbers are from event `seq` on."""
        if self._seqs and self._seqs[-1] == seq:
            self._numbers[-self._width :] = array("I", numbers)
        elif tuple(self._numbers[-self._width :]) != numbers:
            self._seqs.append(seq)
            self._numbers.extend(numbers)

    def at(self, seq: int) -> tuple[int, ...] | None:
        """The numbers after event `seq`; None before they were first told."""
        end = bisect_right(self._seqs, seq) * self._width
        return tuple(self._numbers[end - self._width : end]) if end else None

    def is_changed(self, since: int, seq: int) -> bool:
        """Whether they changed after event `since`, until event `seq`."""
        return bisect_right(self._seqs, since) < bisect_right(self._seqs, seq)
