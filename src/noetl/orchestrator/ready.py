"""Ready orders: what a worker may claim, by priority and then in the order they came (ADV-03)."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush

import msgspec


class Ready(msgspec.Struct, frozen=True):
    """`seen_epoch` is the lease under which it was found abandoned, 0 for one that was never held."""

    execution_id: str
    order_id: str
    seen_epoch: int = 0
    priority: int = 0


class ReadyOrders:
    """An order is offered once. Those of a paused execution are laid aside until it goes on."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Ready]] = []
        self._known: set[str] = set()
        self._aside: dict[str, list[Ready]] = {}
        self._came = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, ready: Ready) -> None:
        if ready.order_id in self._known:
            return
        self._known.add(ready.order_id)
        self._came += 1
        heappush(self._heap, (-ready.priority, self._came, ready))

    def take(self) -> Ready:
        ready = heappop(self._heap)[2]
        self._known.discard(ready.order_id)
        return ready

    def lay_aside(self, ready: Ready) -> None:
        self._aside.setdefault(ready.execution_id, []).append(ready)

    def offer_aside(self, execution_id: str) -> None:
        for ready in self._aside.pop(execution_id, ()):
            self.add(ready)

    def forget(self, execution_ids: Collection[str]) -> None:
        """Whatever was offered of these executions; they will be read again."""
        self._heap = [item for item in self._heap if item[2].execution_id not in execution_ids]
        heapify(self._heap)
        self._known = {ready.order_id for _, _, ready in self._heap}
        for execution_id in execution_ids:
            self._aside.pop(execution_id, None)
