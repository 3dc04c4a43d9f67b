"""Ranges: how many iterations one order takes, and which (LOOP-05, LOOP-11, LOOP-15, performance.md §2)."""

from __future__ import annotations

from math import gcd

from noetl.base.ids import derived
from noetl.events.loops import LoopStarted

MAX_SHARDS = 8  # ranges of one loop that are open at the same time, where its bound allows
MAX_LENGTH = 500
_ROUNDS = 4  # each shard takes about this many ranges, so that a slow one does not hold up the end


def shards(in_flight: int) -> int:
    return min(in_flight, MAX_SHARDS)


def length_of(opened: LoopStarted) -> int:
    """How many iterations a range of this level has."""
    if opened.local:
        return opened.total
    parts = shards(opened.in_flight) * _ROUNDS
    return min(max(-(-opened.total // parts), 1), MAX_LENGTH)


def slots_of(opened: LoopStarted, length: int, room: int) -> int:
    """How many iterations of a range run at a time; `room` is what the bound leaves."""
    share = opened.in_flight if opened.local else -(-opened.in_flight // shards(opened.in_flight))
    return max(1, min(share, length, room))


def shuffled(positions: range, total: int, seed: str) -> tuple[int, ...]:
    """The iterations at these positions of a fixed shuffling of all `total`: the same for the same seed."""
    number = int(derived(seed)[:16], 16)
    third = max(total // 3, 1)
    step = third + number % third  # far from its neighbours either way
    while gcd(step, total) != 1:
        step += 1
    return tuple((position * step + number) % total for position in positions)
