"""Memory use: how much memory loaded executions take on a server, and which are evicted first.

The weight of an execution is estimated from the stored size of its events, since its state is made of them. The size is
known without work; Python objects take a few times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from noetl.events.envelope import Event, encode_payload

MIB = 1 << 20
# The three figures are estimates: they must only rank executions and keep the sum near the bound.
_BASE_BYTES = 4_096  # an execution of which nothing is known yet
_EVENT_BYTES = 120
_TIMES_STORED = 2  # memory for one stored byte of payload, roughly


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept in memory. At least `least` executions stay, however large they are: reading an execution again
    for every decision would cost more time than its memory is worth."""

    most: int = 5_000
    # By the estimate of `weight_of`, not by what the process takes.
    most_bytes: int = 256 * MIB
    # Clients that wait for the end and the UI read a finished execution shortly after its end, and seldom later.
    most_over: int = 200
    most_over_bytes: int = 8 * MIB
    least: int = 64


def weight_of(events: Iterable[Event]) -> int:
    """The estimated bytes in memory of a state that these events have built."""
    return weight_of_sizes([len(encode_payload(event.payload)) for event in events])


def weight_of_sizes(payload_bytes: Sequence[int]) -> int:
    """The same, from the encoded sizes of their payloads."""
    return _EVENT_BYTES * len(payload_bytes) + _TIMES_STORED * sum(payload_bytes)


class MustStay(Protocol):
    def __call__(self, execution_id: str) -> bool:
        """Whether an execution must not be evicted."""


class MemoryUse:
    """The weights of the loaded executions, in the order of their last use."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._weights: dict[str, int] = {}  # least recently used first
        self._over: dict[str, None] = {}  # finished executions, the earliest first
        # Sums over both dicts, kept up to date, since `evictions` needs them after every commit.
        self.bytes = self.over_bytes = 0

    def add(self, execution_id: str, weight: int, *, is_over: bool) -> None:
        """Count that an execution has grown by `weight`, and was used just now."""
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

    def evictions(self, must_stay: MustStay) -> list[str]:
        """The executions to evict now: first finished ones, then the least recently used."""
        # Nothing is removed here. The caller drops them, and `drop` corrects the sums.
        evicted: dict[str, None] = {}
        bounds = self._bounds
        over_excess = _Excess(len(self._over) - bounds.most_over, self.over_bytes - bounds.most_over_bytes)
        excess = _Excess(len(self._weights) - bounds.most, self.bytes - bounds.most_bytes)
        for execution_id in self._candidates(self._over, must_stay, lambda: over_excess.remains or excess.remains):
            over_excess.reduce(self._weights[execution_id])
            excess.reduce(self._weights[execution_id])
            evicted[execution_id] = None

        def is_too_much() -> bool:
            # `least` limits eviction by size only: the bound on the number is above it and always holds.
            left = len(self._weights) - len(evicted)
            return excess.number > 0 or (excess.remains and left > bounds.least)

        for execution_id in self._candidates(self._weights, must_stay, is_too_much):
            if execution_id not in evicted:
                excess.reduce(self._weights[execution_id])
                evicted[execution_id] = None
        return list(evicted)

    def _candidates(
        self, execution_ids: Iterable[str], must_stay: MustStay, goes_on: Callable[[], bool]
    ) -> Iterator[str]:
        # Asked before the copy: in most calls nothing is too much, and there may be thousands.
        if goes_on():
            for execution_id in list(execution_ids):
                if not goes_on():
                    return
                if not must_stay(execution_id):
                    yield execution_id


class _Excess:
    """By how much a bound is exceeded, in number and in bytes."""

    def __init__(self, number: int, size_bytes: int) -> None:
        self.number, self._bytes = number, size_bytes

    @property
    def remains(self) -> bool:
        return self.number > 0 or self._bytes > 0

    def reduce(self, weight: int) -> None:
        self.number -= 1
        self._bytes -= weight
