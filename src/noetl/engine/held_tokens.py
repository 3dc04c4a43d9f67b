"""Where tokens are held: fork groups, whose tokens meet at joins (O-01), slots, places under a limit, and paces.

Counted as tokens move, so that no event costs more for the size of a group. Only `evolve` changes what is here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping

import msgspec

from noetl.events.control import StepRate


class Fork(msgspec.Struct, kw_only=True):
    """The tokens of one firing, and all that descend from them until a join. `around` is the group it was opened in.

    `out` counts, by step, its tokens that do not wait at one of its joins, and all tokens of groups inside it;
    `waiting` has the others in the order they came. `joined` are the joins that have run for it; true: others may not
    meet there while it lives.
    """

    fork_id: str
    around: str | None = None
    out: dict[str, int] = {}
    waiting: dict[str, dict[str, None]] = {}
    joined: dict[str, bool] = {}

    @property
    def is_empty(self) -> bool:
        return not self.out and not self.waiting


class Slot(msgspec.Struct, kw_only=True):
    """Who holds a place under a limit, oldest first; who waits for one; and who has been called up and not come.

    Steps that share a key may differ in their limits. Whoever was called up and found no room under its own, tighter
    limit is in `front`, before the queue.
    """

    held: dict[str, None] = {}
    queue: dict[str, None] = {}
    called: dict[str, None] = {}
    front: dict[str, None] = {}

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
    """The moments of a rate, the earliest first: when runs have `begun`, as far back as that still counts, and those
    `ahead`, each given to a token that waits for it (ADV-05).

    `counted_s` is the longest stretch of any rate there was under this name, so that what has begun still counts when
    the rate is changed and changed back."""

    counted_s: float = 0.0
    begun: list[float] = []
    ahead: list[float] = []

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
