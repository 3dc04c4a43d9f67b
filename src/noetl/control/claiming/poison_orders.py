"""Poison orders: an order that was lost with two workers is given out alone from then on (reliability.md §3.3).

A worker that dies takes with it everything else it ran. Given out together again, innocent orders would be lost as
often as the one that kills, and would be given up with it. So a suspect order goes to a worker that holds nothing
else, and that worker gets nothing else meanwhile. A further loss is then due to the order itself. A first loss is
ordinary, since machines go away.

Where every worker is busy, one of them is drained: it gets nothing new until it can take the suspect. Only this
server knows that. Several servers may each drain one worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import UnreadableError
from noetl.control.claiming.pools import EVERY
from noetl.control.claiming.ready_orders import Ready
from noetl.control.commit.decisions import Decisions
from noetl.events.orders import Turn
from noetl.store.contract import Store

# The epoch counts claims, so an order found under epoch 2 was lost twice.
LOSSES = 2
EMPTIED_S = 10.0  # without a word from a worker that is being emptied, another one may be


class Offer(msgspec.Struct, frozen=True):
    """What the worker gets instead of whatever else is ready: this order, or nothing."""

    order: Ready | None = None


class PoisonOrders:
    """All of it inside a batch."""

    def __init__(self, decisions: Decisions, store: Store, clock: Clock) -> None:
        self._decisions, self._store, self._clock = decisions, store, clock
        # Suspects in the order they were found. Each is laid aside in `ReadyOrders` as well, so that the sweep does not
        # offer it.
        self._waiting: dict[Ready, None] = {}
        self._alone: dict[str, Ready] = {}  # by worker, the suspect it was given
        self._emptied: dict[Ready, tuple[str, float]] = {}  # which worker is emptied for it, and until when it is tried

    def divert(self, ready: Ready) -> bool:
        """Whether it is a suspect, which waits for a worker of its own."""
        if ready.seen_epoch < LOSSES:
            return False
        self._decisions.ready.lay_aside(ready)
        self._waiting[ready] = None
        return True

    @property
    def counts(self) -> dict[str, int]:
        """The pools in which some wait; one worker at a time is enough for them."""
        return {ready.pool: 1 for ready in self._waiting}

    async def offer(self, turn: Turn, may_take: Callable[[Ready], bool] = lambda _: True) -> Offer | None:
        """None for a worker that takes what is ready, as usual. `may_take`: it can run such an order."""
        if await self._is_alone(turn.worker_id):
            return Offer()
        if (suspect := self._first(turn.pools, may_take)) is None:
            return None
        if not await self._is_busy(turn.worker_id):
            return Offer(self._isolate(suspect, turn.worker_id))
        now = self._clock.now()
        worker_id, until = self._emptied.get(suspect, (turn.worker_id, now))
        # Another worker is being drained for it. One is enough, unless that one has gone silent.
        if worker_id != turn.worker_id and until > now:
            return None
        self._emptied[suspect] = turn.worker_id, now + EMPTIED_S
        return Offer()

    def _first(self, pools: Collection[str], may_take: Callable[[Ready], bool]) -> Ready | None:
        ready, quarantine = self._decisions.ready, self._decisions.quarantine
        for suspect in list(self._waiting):
            if not ready.is_aside(suspect):  # its execution was read again, or was ended: who finds it says so
                self._forget(suspect)
                continue
            is_theirs = EVERY in pools or suspect.pool in pools
            if is_theirs and not quarantine.holds(suspect.execution_id) and may_take(suspect):
                return suspect
        return None

    def _isolate(self, suspect: Ready, worker_id: str) -> Ready:
        self._decisions.ready.take_aside(suspect)
        self._forget(suspect)
        self._alone[worker_id] = suspect
        return suspect

    def _forget(self, suspect: Ready) -> None:
        del self._waiting[suspect]
        self._emptied.pop(suspect, None)

    async def _is_alone(self, worker_id: str) -> bool:
        """Whether it still holds the suspect it was given."""
        suspect = self._alone.get(worker_id)
        if suspect is None:
            return False
        is_held = await self._holds(worker_id, suspect.execution_id, suspect.order_id)
        if is_held and not await self._has_run_out(worker_id, suspect):
            return True
        del self._alone[worker_id]
        return False

    async def _has_run_out(self, worker_id: str, suspect: Ready) -> bool:
        """Whether the lease it was given is over. The worker may have dropped the order, its report refused, and still
        be the last one named for it: it would never be given anything again."""
        return any(
            row.order_id == suspect.order_id
            and row.lease_epoch > suspect.seen_epoch
            and (row.lease_until or 0.0) < self._clock.now()
            for row in await self._store.held_by(worker_id)
        )

    async def _is_busy(self, worker_id: str) -> bool:
        """Whether it holds anything, apart from what it reports to have ended just now."""
        for row in await self._store.held_by(worker_id):
            # An expired lease keeps nobody busy: the order may be claimed elsewhere already.
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
