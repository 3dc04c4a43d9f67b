"""Poison orders: an order that was lost with two workers is a suspect, and from then on runs alone (reliability.md
§3.3).

A worker that dies loses everything else it ran. If those orders ran together again, innocent ones would be lost as
often as the one that kills its worker, and would be given up with it. So a suspect goes to a worker that holds nothing
else, and that worker gets nothing else meanwhile. A further loss is then due to the order itself. A first loss is
ordinary, since machines go away.

If every worker is busy, one of them is emptied: it gets nothing new until it can take the suspect. Only this server
knows that. Several servers may each empty one worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import UnreadableError
from noetl.control.claiming.pools import EVERY
from noetl.control.claiming.ready_orders import ReadyOrder
from noetl.control.commit.decisions import Decisions
from noetl.events.orders import Turn
from noetl.store.contract import Store

# The epoch counts claims, so an order found under epoch 2 was lost twice.
LOSSES = 2
EMPTIED_S = 10.0  # after this time without a turn of the worker that is being emptied, another one may be


class Offer(msgspec.Struct, frozen=True):
    """The offer to the worker in place of other ready orders: this order, or nothing."""

    order: ReadyOrder | None = None


class PoisonOrders:
    """The suspects, and the workers that run one alone. Every method runs inside a batch."""

    def __init__(self, decisions: Decisions, store: Store, clock: Clock) -> None:
        self._decisions, self._store, self._clock = decisions, store, clock
        # Suspects in the order they were found. Each is laid aside in `ReadyOrders` as well, so that the sweep does not
        # offer it.
        self._waiting: dict[ReadyOrder, None] = {}
        self._alone: dict[str, ReadyOrder] = {}  # by worker: the suspect that it runs alone
        # The worker that is being emptied for a suspect, and until when it has time for that.
        self._emptied: dict[ReadyOrder, tuple[str, float]] = {}

    def divert(self, ready: ReadyOrder) -> bool:
        """Lay a suspect aside until a worker can run it alone; False for any other order."""
        if ready.seen_epoch < LOSSES:
            return False
        self._decisions.ready.lay_aside(ready)
        self._waiting[ready] = None
        return True

    @property
    def counts(self) -> dict[str, int]:
        """The pools in which suspects wait. The count is 1: one worker at a time is enough."""
        return {ready.pool: 1 for ready in self._waiting}

    async def offer(self, turn: Turn, may_take: Callable[[ReadyOrder], bool] = lambda _: True) -> Offer | None:
        """The offer to the worker because of suspect orders; None: it claims as usual. `may_take` says whether the
        worker can run an order."""
        if await self._is_alone(turn.worker_id):
            return Offer()
        if (suspect := self._first_suspect(turn.pools, may_take)) is None:
            return None
        if not await self._is_busy(turn.worker_id):
            return Offer(self._isolate(suspect, turn.worker_id))
        now = self._clock.now()
        worker_id, until = self._emptied.get(suspect, (turn.worker_id, now))
        # Another worker is being emptied for it. One is enough, unless that one has gone silent.
        if worker_id != turn.worker_id and until > now:
            return None
        self._emptied[suspect] = turn.worker_id, now + EMPTIED_S
        return Offer()

    def _first_suspect(self, pools: Collection[str], may_take: Callable[[ReadyOrder], bool]) -> ReadyOrder | None:
        """The suspect that has waited longest for a worker of these pools."""
        ready, quarantine = self._decisions.ready, self._decisions.quarantine
        for suspect in list(self._waiting):
            # Its execution was read again or has ended. If the order still waits, the next `seek` diverts it again.
            if not ready.is_aside(suspect):
                self._forget(suspect)
                continue
            is_served = EVERY in pools or suspect.pool in pools
            if is_served and not quarantine.holds(suspect.execution_id) and may_take(suspect):
                return suspect
        return None

    def _isolate(self, suspect: ReadyOrder, worker_id: str) -> ReadyOrder:
        self._decisions.ready.take_aside(suspect)
        self._forget(suspect)
        self._alone[worker_id] = suspect
        return suspect

    def _forget(self, suspect: ReadyOrder) -> None:
        del self._waiting[suspect]
        self._emptied.pop(suspect, None)

    async def _is_alone(self, worker_id: str) -> bool:
        """Whether the worker still holds the suspect that it runs alone."""
        suspect = self._alone.get(worker_id)
        if suspect is None:
            return False
        is_held = await self._holds(worker_id, suspect.execution_id, suspect.order_id)
        if is_held and not await self._has_run_out(worker_id, suspect):
            return True
        del self._alone[worker_id]
        return False

    async def _has_run_out(self, worker_id: str, suspect: ReadyOrder) -> bool:
        """Whether the lease on the suspect is over. The worker may have dropped the order after a refused report and
        still be its last holder in the log; without this check it would never get an order again."""
        return any(
            row.order_id == suspect.order_id
            and row.lease_epoch > suspect.seen_epoch
            and (row.lease_until or 0.0) < self._clock.now()
            for row in await self._store.held_by(worker_id)
        )

    async def _is_busy(self, worker_id: str) -> bool:
        """Whether the worker holds an order, apart from those that it reports as ended in this turn."""
        for row in await self._store.held_by(worker_id):
            # An expired lease does not count: the order may be claimed elsewhere already.
            is_held = (row.lease_until or 0.0) >= self._clock.now()
            if is_held and await self._holds(worker_id, row.execution_id, row.order_id):
                return True
        return False

    async def _holds(self, worker_id: str, execution_id: str, order_id: str) -> bool:
        with suppress(UnreadableError):
            execution = (await self._decisions.load(execution_id)).execution
            lease = execution.lease_of(order_id)
            return execution.is_open and lease is not None and lease.worker_id == worker_id
        return False
