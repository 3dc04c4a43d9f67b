"""How much memory the executions take that a server keeps, and which of them leave first.

An execution weighs what its events weigh: its state is made of them. The weight is an estimate by their stored size,
which is there for little; a Python object takes a few times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from noetl.events.encoding import encode_payload
from noetl.events.envelope import Event

MIB = 1 << 20
# The three figures are estimates: they must only rank executions and keep the sum near the bound.
_BASE_BYTES = 4_096  # an execution of which nothing is known yet
_EVENT_BYTES = 120
_TIMES_STORED = 2  # memory for one stored byte of payload, roughly


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept. Those in use are never fewer than `least`, however large they are: one that is read again for
    every decision would take more time than it saves memory."""

    most: int = 5_000
    # By the estimate of `weight_of`, not by what the process takes.
    most_bytes: int = 256 * MIB
    # Ended executions are asked for a little longer, by clients that wait for the end and by the UI, and seldom after
    # that.
    most_over: int = 200  # of those that are over
    most_over_bytes: int = 8 * MIB
    least: int = 64


def weight_of(events: Iterable[Event]) -> int:
    """About how many bytes a state takes that has seen these."""
    return weight_of_sizes([len(encode_payload(event.payload)) for event in events])


def weight_of_sizes(payload_bytes: Sequence[int]) -> int:
    """The same where it is known how large their payloads are."""
    return _EVENT_BYTES * len(payload_bytes) + _TIMES_STORED * sum(payload_bytes)


class IsKept(Protocol):
    def __call__(self, execution_id: str) -> bool:
        """Whether an execution has to stay, since somebody waits for it."""


class KeptBytes:
    """The weights of what is kept, and in which order it was used last."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._weights: dict[str, int] = {}  # used longest ago first
        self._over: dict[str, None] = {}  # over for longest first
        # Sums over both dicts, kept up to date, since `leaving` asks after every commit.
        self.bytes = self.over_bytes = 0

    def add(self, execution_id: str, weight: int, *, is_over: bool) -> None:
        """It has grown by so much, and was used just now."""
        before = self._weights.pop(execution_id, None)
        grown = weight if before is not None else weight + _BASE_BYTES
        self._weights[execution_id] = (before or 0) + grown
        self.bytes += grown
        if execution_id in self._over:
            self.over_bytes += grown
        elif is_over:
            self._over[execution_id] = None
            self.over_bytes += self._weights[execution_id]

    def use(self, execution_id: str) -> None:
        if execution_id in self._weights:
            # A dict keeps insertion order, so the front is what was used longest ago.
            self._weights[execution_id] = self._weights.pop(execution_id)

    def drop(self, execution_id: str) -> None:
        weight = self._weights.pop(execution_id, 0)
        self.bytes -= weight
        if execution_id in self._over:
            del self._over[execution_id]
            self.over_bytes -= weight

    def leaving(self, is_kept: IsKept) -> list[str]:
        """Those that are kept no longer: first what is over, then what was used longest ago."""
        # Nothing is removed here. The caller drops them, and `drop` corrects the sums.
        gone: list[str] = []
        bounds = self._bounds
        has_too_many_over = _Excess(len(self._over) - bounds.most_over, self.over_bytes - bounds.most_over_bytes)
        has_too_many = _Excess(len(self._weights) - bounds.most, self.bytes - bounds.most_bytes)
        for one in self._picked(self._over, is_kept, lambda: has_too_many_over.is_there or has_too_many.is_there):
            for excess in (has_too_many_over, has_too_many):
                excess.less(self._weights[one])
            gone.append(one)
        picked = set(gone)

        def is_too_much() -> bool:
            # a number is a number, but by size a few are kept in any case
            left = len(self._weights) - len(gone)
            return has_too_many.number > 0 or (has_too_many.is_there and left > bounds.least)

        for one in self._picked(self._weights, is_kept, is_too_much):
            if one not in picked:
                has_too_many.less(self._weights[one])
                gone.append(one)
        return gone

    def _picked(self, among: Iterable[str], is_kept: IsKept, goes_on: Callable[[], bool]) -> Iterator[str]:
        if goes_on():
            for one in list(among):
                if not goes_on():
                    return
                if not is_kept(one):
                    yield one


class _Excess:
    def __init__(self, number: int, size_bytes: int) -> None:
        self.number, self._bytes = number, size_bytes

    @property
    def is_there(self) -> bool:
        return self.number > 0 or self._bytes > 0

    def less(self, weight: int) -> None:
        self.number -= 1
        self._bytes -= weight
