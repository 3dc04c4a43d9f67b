"""The moments at which time alone moves an execution, the nearest first (TMR-06).

Reading never changes anything, so that states told by the same events are equal. Whoever writes removes what is
outdated: from the top at once, from within once most of the heap is.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heapify, heappop, heappush

import msgspec

_SLACK = 16  # so many outdated entries are never worth a clean-up


class DueTime(StrEnum):
    """What goes off, and whose id it has."""

    WAIT = "wait"  # a timer, or the timeout of a message, by its wait
    DUE = "due"  # a human task passes its due date
    ESCALATE = "escalate"  # a human task goes to somebody else
    TIMEOUT = "timeout"  # the `timeout` of a step, by its run
    LIFETIME = "lifetime"  # of a step run that waits (O-21)
    RELEASE = "release"  # a token is held until then
    LATE = "late"  # the execution has taken longer than expected, by that duration


Entry = tuple[float, int, DueTime, str]


class DueTimes(msgspec.Struct, kw_only=True):
    """The moments of one execution."""

    # The truth: the moment and number of each. The numbers keep those of one moment in the order they were set.
    due: dict[tuple[DueTime, str], tuple[float, int]] = {}
    # May hold entries that are cancelled or set anew; its top always stands, so that `nearest` is one look.
    heap: list[Entry] = []
    count: int = 0

    @property
    def nearest(self) -> Entry | None:
        return self.heap[0] if self.heap else None

    def set(self, alarm: DueTime, key: str, moment: float) -> None:
        self.count += 1
        self.due[alarm, key] = (moment, self.count)
        heappush(self.heap, (moment, self.count, alarm, key))
        self._clean()

    def cancel(self, alarm: DueTime, key: str) -> None:
        if self.due.pop((alarm, key), None) is not None:
            self._clean()

    def _clean(self) -> None:
        # At most half of the heap is outdated, so cleaning costs a constant per change, spread over many.
        if len(self.heap) > 2 * len(self.due) + _SLACK:
            self.heap = [entry for entry in self.heap if self._stands(entry)]
            heapify(self.heap)
        while self.heap and not self._stands(self.heap[0]):
            heappop(self.heap)

    def _stands(self, entry: Entry) -> bool:
        moment, count, alarm, key = entry
        return self.due.get((alarm, key)) == (moment, count)


def late_key(after_s: float) -> str:
    """What an expected duration is known by among the due times."""
    return repr(float(after_s))
