"""Ready orders: what a worker may claim. Those of a higher priority first (ADV-03); among equals the executions take
turns, so that one with ten thousand of them does not keep others waiting; within an execution as they came. Also what a
worker in the same process is asked when it waits for one.

What an order needs of a worker is learned when the first one that cannot run it is about to take it: from then on it
lies in a lane of its own, which only those are shown who run all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import msgspec

from noetl.events.orders import Order
from noetl.store.contract import DEFAULT_POOL


# No garbage collection: it holds only strings and numbers, so it is in no reference cycle, and there may be thousands.
class Ready(msgspec.Struct, frozen=True, gc=False):
    """An order that waits for a worker."""

    execution_id: str
    order_id: str
    # The lease under which it was found abandoned, 0 for one that was never held. The engine compares it when the order
    # is claimed: of two servers that found the same order one succeeds (`engine/reports.py`, `claim`).
    seen_epoch: int = 0
    priority: int = 0
    pool: str = DEFAULT_POOL


Needs = frozenset[str]  # the tool kinds of an order's tasks
_MOST_NEEDS = 50_000  # kept in memory; what is forgotten is learned again


class _Line:
    """The orders of one lane, by priority, then by execution."""

    def __init__(self) -> None:
        # No empty inner dict or deque is ever kept: `__bool__` and `highest` rely on it.
        self._levels: dict[int, dict[str, deque[Ready]]] = {}

    def __bool__(self) -> bool:
        return bool(self._levels)

    def __len__(self) -> int:
        return sum(len(own) for level in self._levels.values() for own in level.values())

    @property
    def highest(self) -> int:
        return max(self._levels)

    def add(self, ready: Ready) -> None:
        self._levels.setdefault(ready.priority, {}).setdefault(ready.execution_id, deque()).append(ready)

    def take(self) -> Ready:
        """The next one; its execution goes to the end of its level."""
        priority = self.highest
        level = self._levels[priority]
        execution_id = next(iter(level))
        # Popped and put back behind the others: a dict keeps insertion order, so executions take turns.
        own = level.pop(execution_id)
        ready = own.popleft()
        if own:
            level[execution_id] = own
        elif not level:
            del self._levels[priority]
        return ready

    def drop(self, execution_ids: Collection[str]) -> Iterator[Ready]:
        for priority, level in list(self._levels.items()):
            for execution_id in execution_ids:
                yield from level.pop(execution_id, ())
            if not level:
                del self._levels[priority]


class ReadyOrders:
    """An order is offered once. Those of a paused execution are laid aside until it goes on."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, Needs | None], _Line] = {}  # by pool, and by what is known to be needed
        # By order. Only of orders that some worker could not run: what an order needs is looked up when a claim was
        # refused.
        self._needs: dict[str, Needs] = {}
        # Ids of all orders in the lines, not of those laid aside. An order that was taken may be offered again, under
        # its next epoch.
        self._known: set[str] = set()
        # Of paused executions. The store goes on offering them, so `Claims.seek` asks `is_aside`.
        self._aside: dict[str, list[Ready]] = {}
        self._counts: dict[str, int] = {}
        # By pool, as `_counts`: how many were added since the last commit told workers of new ones.
        self._fresh: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, order_id: str) -> bool:
        return order_id in self._known

    @property
    def counts(self) -> dict[str, int]:
        """How many there are, by pool."""
        return self._counts

    def take_fresh(self) -> dict[str, int]:
        """How many have come since this was asked last, by pool, as far as they are still there."""
        fresh, self._fresh = self._fresh, {}
        # Some were claimed in the same commit that made them; waking workers for those would be in vain.
        return {pool: min(number, self._counts[pool]) for pool, number in fresh.items() if pool in self._counts}

    @property
    def set_aside_count(self) -> int:
        return sum(map(len, self._aside.values()))

    def add(self, ready: Ready) -> None:
        # The sweep and a commit may both offer the same order.
        if ready.order_id in self._known:
            return
        self._known.add(ready.order_id)
        self._counts[ready.pool] = self._counts.get(ready.pool, 0) + 1
        self._fresh[ready.pool] = self._fresh.get(ready.pool, 0) + 1
        lane = ready.pool, self._needs.get(ready.order_id)
        line = self._lines.get(lane)
        if line is None:
            line = self._lines[lane] = _Line()
        line.add(ready)

    def take(self, pools: Collection[str] | None = None, kinds: Needs | None = None) -> Ready | None:
        """The next order of these pools (None: of any) for who runs these kinds (None: all), if there is one."""
        own = [lane for lane in self._lines if (pools is None or lane[0] in pools) and _covers(kinds, lane[1])]
        if not own:
            return None
        lane = own[0] if len(own) == 1 else max(own, key=lambda lane: self._lines[lane].highest)
        line = self._lines.pop(lane)  # pools take turns as well
        ready = line.take()
        if line:
            self._lines[lane] = line
        self._forget_one(ready)
        return ready

    def pools_for(self, kinds: Needs | None) -> set[str]:
        """The pools that have something for who runs these kinds, as far as it is known."""
        return set(self._counts) if kinds is None else {pool for pool, needs in self._lines if _covers(kinds, needs)}

    def learn(self, order_id: str, needs: Needs) -> None:
        """What an order needs, to be minded whenever it is offered from now on."""
        # Cleared as a whole: what is missing is learned again by one refused claim each.
        if len(self._needs) >= _MOST_NEEDS:
            self._needs.clear()
        self._needs[order_id] = needs

    def needs_of(self, order_id: str) -> Needs | None:
        return self._needs.get(order_id)

    @property
    def needed(self) -> dict[tuple[str, Needs], int]:
        """Of the orders that some worker could not run: how many there are, by pool and need."""
        return {(pool, needs): len(line) for (pool, needs), line in self._lines.items() if needs is not None}

    def lay_aside(self, ready: Ready) -> None:
        self._aside.setdefault(ready.execution_id, []).append(ready)

    def is_aside(self, ready: Ready) -> bool:
        return ready in self._aside.get(ready.execution_id, ())

    def take_aside(self, ready: Ready) -> None:
        """It is no longer laid aside, and not offered either."""
        own = self._aside[ready.execution_id]
        own.remove(ready)
        if not own:
            del self._aside[ready.execution_id]

    def offer_aside(self, execution_id: str) -> None:
        for ready in self._aside.pop(execution_id, ()):
            self.add(ready)

    def forget(self, execution_ids: Collection[str]) -> None:
        """Whatever was offered of these executions; they will be read again."""
        for lane, line in list(self._lines.items()):
            for ready in line.drop(execution_ids):
                self._forget_one(ready)
            if not line:
                del self._lines[lane]
        for execution_id in execution_ids:
            self._aside.pop(execution_id, None)

    def _forget_one(self, ready: Ready) -> None:
        self._known.discard(ready.order_id)
        left = self._counts[ready.pool] = self._counts[ready.pool] - 1
        if not left:
            del self._counts[ready.pool]


def _covers(kinds: Needs | None, needs: Needs | None) -> bool:
    return kinds is None or needs is None or needs <= kinds


# A worker in the same process that waits for work. What a batch makes ready is claimed for it in that very batch, so
# that the start of an execution and its first claim are one commit instead of two (W4: two commits, not three).


class OrderReceiver(Protocol):
    def give(self, orders: Sequence[Order]) -> None:
        """These are its own now. Never waits."""


class LocalWorker(OrderReceiver, Protocol):
    worker_id: str

    @property
    def free(self) -> int:
        """How many orders it would begin at once."""
