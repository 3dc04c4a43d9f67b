"""Leases: which worker holds which order. They are renewed, given back, or handed out again under the same epoch
(WRK-03).

They live in the store, so any server may answer for a worker. The loss or the end of a lease is not an event. That
another worker takes the order is one, under the next epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.base.clock import Clock
from noetl.control.claiming.orders import bounded, order_for
from noetl.control.claiming.pools import EVERY
from noetl.control.commit.decisions import Decisions
from noetl.events.orders import Order, Turn
from noetl.store.contract import Store

# Any moment in the past would make the order claimable; this one cannot be the end of a real lease, so `Claims.seek`
# can tell the two apart.
GIVEN_BACK = 0.0  # the moment of a lease that its holder ended itself: no worker was lost with it


class OrderLeases:
    def __init__(self, decisions: Decisions, store: Store, clock: Clock) -> None:
        self._decisions, self._store, self._clock = decisions, store, clock

    async def renew(self, worker_id: str, leases: Mapping[str, int], ttls: Mapping[str, float]) -> frozenset[str]:
        """Prolong them, each by its own time; gives those that the worker does not hold, or no longer."""
        now, usual_s = self._clock.now(), self._decisions.terms.ttl_s
        lost = []
        for order_id, epoch in leases.items():
            until = now + bounded(ttls.get(order_id, usual_s))
            # Compare and set on owner and epoch: a worker that lost its lease must not prolong that of its successor.
            if not await self._store.renew(order_id, lease_epoch=epoch, lease_until=until, owner=worker_id):
                lost.append(order_id)
        return frozenset(lost)

    async def give_back(self, worker_id: str) -> int:
        """The worker has gone: whatever it held may be taken by others now. Gives how many orders that were."""
        held = await self._store.held_by(worker_id)
        # Not deleted: the epoch must stay, since a late report of this worker is fenced by it.
        for order in held:
            await self._store.renew(order.order_id, lease_epoch=order.lease_epoch, lease_until=GIVEN_BACK)
        return len(held)

    async def unanswered_orders(self, turn: Turn) -> list[Order]:
        """Inside a batch: orders that the worker holds and has not heard of, since the answer that named them was lost.
        Without this they would wait until their leases run out. All of them, however many it asks for: some may be in
        an answer that is on its way to it, and would hide the others."""
        found: list[Order] = []
        now, known = self._clock.now(), turn.holding or {}
        for row in await self._store.held_by(turn.worker_id):
            is_served = EVERY in turn.pools or row.pool in turn.pools  # it may serve fewer pools than it did
            is_lost = is_served and known.get(row.order_id) != row.lease_epoch and (row.lease_until or 0.0) >= now
            if not is_lost:
                continue
            # The row may be older than the log: only what the execution itself says of the lease counts.
            loaded = await self._decisions.load(row.execution_id)
            lease = loaded.execution.lease_of(row.order_id)
            if lease is not None and (lease.worker_id, lease.lease_epoch) == (turn.worker_id, row.lease_epoch):
                order = order_for(loaded.plan, loaded.execution, row.order_id, self._decisions.terms)
                found.append(msgspec.structs.replace(order, lease_until=row.lease_until or 0.0))
        return found
