"""Where tokens are held: fork groups, whose tokens meet at joins (O-01), slots, places under a limit, and paces.

Counted as tokens move, so that no event costs more for the size of a group. Only `evolve` changes what is here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping

import msgspec

from noetl.events.control import StepRate


class Fork(msgspec.Struct, kw_only=True):
    """The tokens of one firing, and all that descend from them until a join."""

    fork_id: str
    around: str | None = None  # the group it was opened in
    # By step: how many of its tokens do not wait at one of its joins, with all tokens of groups inside it. No zeros are
    # kept, so that an empty dict means that nobody is on the way.
    out: dict[str, int] = {}
    waiting: dict[str, dict[str, None]] = {}  # by join, the tokens that wait there, in the order they came
    joined: dict[str, bool] = {}  # joins that have run for it; true: others may not meet there while it lives

    @property
    def is_empty(self) -> bool:
        return not self.out and not self.waiting


class Slot(msgspec.Struct, kw_only=True):
    """The places under one limit. Steps that share a key share it, and may differ in their limits. All four are ordered
    sets of tokens."""

    held: dict[str, None] = {}  # who runs, the oldest first
    queue: dict[str, None] = {}  # who waits
    called: dict[str, None] = {}  # called up, and not admitted yet; they count as if they held a place
    front: dict[str, None] = {}  # called up, and found no room under a tighter limit of their own: before the queue

    @property
    def is_empty(self) -> bool:
        return not (self.held or self.queue or self.called or self.front)

    def has_room(self, token_id: str, limit: int) -> bool:
        """Whether this token may have a place now. Whoever waits longer goes first."""
        others = len(self.called) - (token_id in self.called)
        first = token_id in self.called or not (self.queue or self.front)
        return len(self.held) + others < limit and first

    def call(self, token_id: str) -> None:
        """Call up one that waits."""
        if token_id in self.front:
            del self.front[token_id]
        else:
            del self.queue[token_id]
        self.called[token_id] = None

    def call_next(self) -> str | None:
        """Call up the one that waits longest."""
        waiting = self.front or self.queue
        token_id = next(iter(waiting), None)
        if token_id is not None:
            del waiting[token_id]
            self.called[token_id] = None
        return token_id


class StepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator has set for a step; None: as its playbook says."""

    limit: int | None = None
    rate: StepRate | None = None


class Pace(msgspec.Struct, kw_only=True):
    """The moments of a rate, the earliest first (ADV-05)."""

    # The longest stretch of any rate there was under this name, so that what has begun still counts when the rate is
    # changed and changed back.
    counted_s: float = 0.0
    begun: list[float] = []  # when runs have begun, as far back as that still counts
    ahead: list[float] = []  # each given to a token that waits for it

    def begin(self, now: float) -> None:
        insort(self.begun, now)
        over = bisect_right(self.begun, now - self.counted_s)
        del self.begun[:over]

    def give(self, moment: float) -> None:
        """Rates of several steps may share a name, so that a later one is given an earlier moment."""
        insort(self.ahead, moment)

    def take_back(self, moment: float) -> None:
        at = bisect_left(self.ahead, moment)
        if at < len(self.ahead) and self.ahead[at] == moment:
            del self.ahead[at]

    def last(self, number: int) -> float | None:
        """The moment that comes so many before the end; None where there have not been so many."""
        if number <= len(self.ahead):
            return self.ahead[-number]
        before = number - len(self.ahead)
        return self.begun[-before] if before <= len(self.begun) else None

    def is_over(self, now: float) -> bool:
        """Whether nothing of it counts any more."""
        return not self.ahead and (not self.begun or self.begun[-1] + self.counted_s <= now)


def around(forks: Mapping[str, Fork], fork_id: str | None) -> Iterator[Fork]:
    """The group and those around it, innermost first."""
    while fork_id is not None:
        fork = forks[fork_id]
        yield fork
        fork_id = fork.around


def count(counts: dict[str, int], step: str, by: int) -> None:
    number = counts.get(step, 0) + by
    if number:
        counts[step] = number
    else:
        del counts[step]
