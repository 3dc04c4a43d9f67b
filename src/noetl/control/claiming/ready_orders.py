"""Ready orders: the orders in memory that a worker may claim. Higher priority comes first (ADV-03). At equal priority
executions take turns, so that one with ten thousand orders does not keep others waiting. Within an execution orders
keep their sequence. Also the interface of a worker in the same process that waits for orders.

The tool kinds of an order are learned when the first worker that lacks one is about to claim it. From then on the order
is in a lane of its own, which is offered only to workers that have all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import msgspec

from noetl.events.orders import Order
from noetl.store.contract import DEFAULT_POOL


# gc=False: it holds only strings and numbers, so it is in no reference cycle, and there may be thousands.
class ReadyOrder(msgspec.Struct, frozen=True, gc=False):
    """An order that waits for a worker."""

    execution_id: str
    order_id: str
    # The epoch of its last lease, 0 for an order that was never claimed. The engine compares it when the order is
    # claimed: of two servers that found the same order one succeeds (`engine/reports.py`, `claim_order`).
    seen_epoch: int = 0
    priority: int = 0
    pool: str = DEFAULT_POOL


Needs = frozenset[str]  # the tool kinds of an order's tasks
_MOST_NEEDS = 50_000  # orders whose needs are kept in memory


class _Line:
    """The orders of one lane, by priority, then by execution."""

    def __init__(self) -> None:
        # No empty inner dict or deque is ever kept: `__bool__` and `highest` rely on it.
        self._levels: dict[int, dict[str, deque[ReadyOrder]]] = {}

    def __bool__(self) -> bool:
        return bool(self._levels)

    def __len__(self) -> int:
        return sum(len(own) for level in self._levels.values() for own in level.values())

    @property
    def highest(self) -> int:
        return max(self._levels)

    def add(self, ready: ReadyOrder) -> None:
        self._levels.setdefault(ready.priority, {}).setdefault(ready.execution_id, deque()).append(ready)

    def take(self) -> ReadyOrder:
        """Remove and return the next order; its execution goes to the end of its level."""
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

    def drop(self, execution_ids: Collection[str]) -> Iterator[ReadyOrder]:
        for priority, level in list(self._levels.items()):
            for execution_id in execution_ids:
                yield from level.pop(execution_id, ())
            if not level:
                del self._levels[priority]


class ReadyOrders:
    """Each order is offered once. Orders of a paused execution are laid aside until it goes on."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, Needs | None], _Line] = {}  # by lane: pool and needs, None while not known
        # By order. Only for orders that some worker could not run.
        self._needs: dict[str, Needs] = {}
        # Ids of all orders in the lines, not of those laid aside. An order that was taken may be offered again, under
        # its next epoch.
        self._known: set[str] = set()
        # Of paused executions. The store goes on offering them, so `Claims.seek` asks `is_aside`.
        self._aside: dict[str, list[ReadyOrder]] = {}
        self._counts: dict[str, int] = {}
        # By pool, as `_counts`: how many were added since workers were last woken for new orders.
        self._fresh: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, order_id: str) -> bool:
        return order_id in self._known

    @property
    def counts(self) -> dict[str, int]:
        """The number of ready orders by pool."""
        return self._counts

    def take_fresh(self) -> dict[str, int]:
        """The number of orders by pool that were added since the last call and are still ready."""
        fresh, self._fresh = self._fresh, {}
        # Some were claimed in the same commit that made them; waking workers for those would be in vain.
        return {pool: min(number, self._counts[pool]) for pool, number in fresh.items() if pool in self._counts}

    @property
    def set_aside_count(self) -> int:
        return sum(map(len, self._aside.values()))

    def add(self, ready: ReadyOrder) -> None:
        """Offer an order to workers."""
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

    def take(self, pools: Collection[str] | None = None, kinds: Needs | None = None) -> ReadyOrder | None:
        """Remove and return the next order of these pools (None: any) for a worker with these tool kinds (None: all
        kinds)."""
        lanes = [lane for lane in self._lines if (pools is None or lane[0] in pools) and _covers(kinds, lane[1])]
        if not lanes:
            return None
        lane = lanes[0] if len(lanes) == 1 else max(lanes, key=lambda lane: self._lines[lane].highest)
        # Removed and added again at the end, so that lanes of equal priority take turns as well.
        line = self._lines.pop(lane)
        ready = line.take()
        if line:
            self._lines[lane] = line
        self._forget_one(ready)
        return ready

    def pools_for(self, kinds: Needs | None) -> set[str]:
        """The pools with ready orders for a worker with these tool kinds, as far as needs are known."""
        return set(self._counts) if kinds is None else {pool for pool, needs in self._lines if _covers(kinds, needs)}

    def learn(self, order_id: str, needs: Needs) -> None:
        """Remember the tool kinds that an order needs. They apply when the order is added the next time."""
        # Cleared as a whole: needs are learned again, at the cost of one refused claim each.
        if len(self._needs) >= _MOST_NEEDS:
            self._needs.clear()
        self._needs[order_id] = needs

    def needs_of(self, order_id: str) -> Needs | None:
        return self._needs.get(order_id)

    @property
    def needed(self) -> dict[tuple[str, Needs], int]:
        """The number of ready orders that some worker could not run, by pool and needs."""
        return {(pool, needs): len(line) for (pool, needs), line in self._lines.items() if needs is not None}

    def lay_aside(self, ready: ReadyOrder) -> None:
        """Keep an order without offering it: its execution is paused, or it has to run alone."""
        self._aside.setdefault(ready.execution_id, []).append(ready)

    def is_aside(self, ready: ReadyOrder) -> bool:
        return ready in self._aside.get(ready.execution_id, ())

    def take_aside(self, ready: ReadyOrder) -> None:
        """Remove an order that was laid aside, without offering it."""
        orders = self._aside[ready.execution_id]
        orders.remove(ready)
        if not orders:
            del self._aside[ready.execution_id]

    def offer_aside(self, execution_id: str) -> None:
        """Offer the orders of an execution that were laid aside."""
        for ready in self._aside.pop(execution_id, ()):
            self.add(ready)

    def forget(self, execution_ids: Collection[str]) -> None:
        """Remove all orders of these executions, which will be read again from the log."""
        for lane, line in list(self._lines.items()):
            for ready in line.drop(execution_ids):
                self._forget_one(ready)
            if not line:
                del self._lines[lane]
        for execution_id in execution_ids:
            self._aside.pop(execution_id, None)

    def _forget_one(self, ready: ReadyOrder) -> None:
        self._known.discard(ready.order_id)
        left = self._counts[ready.pool] = self._counts[ready.pool] - 1
        if not left:
            del self._counts[ready.pool]


def _covers(kinds: Needs | None, needs: Needs | None) -> bool:
    return kinds is None or needs is None or needs <= kinds


class OrderReceiver(Protocol):
    """A worker, or the poll of a remote one, for which a batch claims orders."""

    def give(self, orders: Sequence[Order]) -> None:
        """Hand over orders whose claim is stored. Must not block."""


# Orders that a batch makes ready are claimed for this worker in the same batch: the start of an execution and its first
# claim are then one commit instead of two (docs/decisions/0012).
class LocalWorker(OrderReceiver, Protocol):
    """The worker in the same process."""

    worker_id: str

    @property
    def free(self) -> int:
        """The number of free slots."""
