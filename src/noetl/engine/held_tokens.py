"""The data of held tokens: fork groups, whose tokens meet at joins (O-01), slots of concurrency limits, and the start
times of rates.

Counts are kept up to date as tokens move, so that no event costs more for a larger group. Only `evolve` changes them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping

import msgspec

from noetl.events.control import StepRate


class Fork(msgspec.Struct, kw_only=True):
    """A fork group: the tokens that one event created, and their descendants up to a join."""

    fork_id: str
    around: str | None = None  # the group it was opened in
    # By step: how many of its tokens are on their way and wait at none of its joins. Tokens of inner groups count too.
    # Zeros are removed, so that an empty dict means that no token is on its way.
    out: dict[str, int] = {}
    waiting: dict[str, dict[str, None]] = {}  # by join: the tokens that wait there, in the order of arrival
    joined: dict[str, bool] = {}  # joins that have fired for it; true: the join blocks other groups until this one ends

    @property
    def is_empty(self) -> bool:
        return not self.out and not self.waiting


class Slot(msgspec.Struct, kw_only=True):
    """The places under one limit. Steps with the same key share a slot and may have different limits.

    All four fields are ordered sets of token ids."""

    held: dict[str, None] = {}  # tokens whose runs hold a place, the oldest first
    queue: dict[str, None] = {}  # tokens that wait
    called: dict[str, None] = {}  # called and not admitted yet; they count as if they held a place
    front: dict[str, None] = {}  # called, but without room under a tighter limit of their own: they go before the queue

    @property
    def is_empty(self) -> bool:
        return not (self.held or self.queue or self.called or self.front)

    def has_room(self, token_id: str, limit: int) -> bool:
        """Whether this token may take a place now. Tokens that have waited longer go first."""
        others = len(self.called) - (token_id in self.called)
        first = token_id in self.called or not (self.queue or self.front)
        return len(self.held) + others < limit and first

    def call(self, token_id: str) -> None:
        """Move a waiting token to the called ones."""
        if token_id in self.front:
            del self.front[token_id]
        else:
            del self.queue[token_id]
        self.called[token_id] = None

    def call_next(self) -> str | None:
        """Call the token that has waited longest; its id, None when none waits."""
        waiting = self.front or self.queue
        token_id = next(iter(waiting), None)
        if token_id is not None:
            del waiting[token_id]
            self.called[token_id] = None
        return token_id


class StepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that an operator has set for a step; None: the playbook's."""

    limit: int | None = None
    rate: StepRate | None = None


class Pace(msgspec.Struct, kw_only=True):
    """The start times under a rate, the earliest first (ADV-05)."""

    # The longest period of any rate that had this name: starts still count after a rate was changed and changed back.
    counted_s: float = 0.0
    begun: list[float] = []  # when runs have started, within the last `counted_s` seconds
    ahead: list[float] = []  # start times that were given to waiting tokens

    def begin(self, now: float) -> None:
        insort(self.begun, now)
        over = bisect_right(self.begun, now - self.counted_s)
        del self.begun[:over]

    def give(self, moment: float) -> None:
        """Reserve a start time for a waiting token."""
        # Not simply appended: steps that share a name may have different rates, so a later call may bring an earlier
        # time.
        insort(self.ahead, moment)

    def take_back(self, moment: float) -> None:
        at = bisect_left(self.ahead, moment)
        if at < len(self.ahead) and self.ahead[at] == moment:
            del self.ahead[at]

    def last(self, number: int) -> float | None:
        """The start time that is `number` places from the end; None where there are fewer."""
        if number <= len(self.ahead):
            return self.ahead[-number]
        before = number - len(self.ahead)
        return self.begun[-before] if before <= len(self.begun) else None

    def is_over(self, now: float) -> bool:
        """Whether no start time counts any more."""
        return not self.ahead and (not self.begun or self.begun[-1] + self.counted_s <= now)


def around(forks: Mapping[str, Fork], fork_id: str | None) -> Iterator[Fork]:
    """The group `fork_id` and the groups around it, innermost first."""
    while fork_id is not None:
        fork = forks[fork_id]
        yield fork
        fork_id = fork.around


def count(counts: dict[str, int], step: str, by: int) -> None:
    """Add `by` to the count of a step. A count of zero is removed."""
    number = counts.get(step, 0) + by
    if number:
        counts[step] = number
    else:
        del counts[step]
