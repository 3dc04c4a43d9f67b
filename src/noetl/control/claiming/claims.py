"""Claims: which orders a worker gets, from its pools and in fair turns. One broken order never stops the others
(SRV-08). Also the leases of claimed orders, and the orders that wait for a large result.

Orders that are not in memory, since another server made them or this one was restarted, are found in the store: by the
search for lost work, and when a worker asks and memory has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, UnreadableError
from noetl.control.claiming.orders import ANY, WorkerAbilities, bounded, needs_of, order_for
from noetl.control.claiming.poison_orders import PoisonOrders
from noetl.control.claiming.pools import EVERY, PoolLimit, Pools
from noetl.control.claiming.ready_orders import Needs, ReadyOrder
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Decisions, ready_order
from noetl.control.commit.group_commit import DecideAgainError
from noetl.control.commit.result_cache import ResultNotLoadedError
from noetl.control.commit.sharing import SharingPolicy
from noetl.engine.commands import ClaimOrder
from noetl.engine.reports import MOST_LEASES
from noetl.events.orders import Order, ReportResult, Turn
from noetl.store.contract import OrderRow, OrderState, Store

# The end of a lease that its holder gave back. Any moment in the past would make the order claimable; this one cannot
# be the end of a real lease, so `Claims.seek` knows that no worker was lost with the order.
GIVEN_BACK = 0.0
_AT_ONCE = 64  # leases that are renewed without a pause of the event loop


class OrderLeases:
    """Leases are renewed, given back, or handed out again under the same epoch (WRK-03). They are rows of the store, so
    any server may answer a worker. The end of a lease is not an event; the next claim of the order is one, under the
    next epoch."""

    def __init__(self, decisions: Decisions, store: Store, clock: Clock) -> None:
        self._decisions, self._store, self._clock = decisions, store, clock

    async def renew(self, worker_id: str, leases: Mapping[str, int], ttls: Mapping[str, float]) -> frozenset[str]:
        """Renew leases, each for its own time; returns the orders that the worker no longer holds."""
        now, usual_s = self._clock.now(), self._decisions.terms.ttl_s
        lost = []
        for number, (order_id, epoch) in enumerate(leases.items(), 1):
            # A store in this process answers without waiting, and a request may name tens of thousands.
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            until = now + bounded(ttls.get(order_id, usual_s))
            # Compare and set on owner and epoch: a worker that lost its lease must not renew that of its successor.
            if not await self._store.renew(order_id, lease_epoch=epoch, lease_until=until, owner=worker_id):
                lost.append(order_id)
        return frozenset(lost)

    async def give_back(self, worker_id: str) -> int:
        """End all leases of a worker, so that others may claim its orders now; returns their number."""
        orders = await self._store.held_by(worker_id)
        # Not deleted: the epoch must stay, since a late report of this worker is fenced by it.
        for order in orders:
            await self._store.renew(order.order_id, lease_epoch=order.lease_epoch, lease_until=GIVEN_BACK)
        return len(orders)

    async def unanswered_orders(self, turn: Turn) -> list[Order]:
        """Orders that the worker holds without knowing, since the response with them was lost; runs inside a batch.
        Without this they would wait until their leases expire. All of them are returned, even beyond the capacity:
        some may be in a response that is still on its way, and would hide the others."""
        orders: list[Order] = []
        now, known = self._clock.now(), turn.holding or {}
        for row in await self._store.held_by(turn.worker_id):
            # A worker that was restarted may serve fewer pools than before.
            is_served = EVERY in turn.pools or row.pool in turn.pools
            is_lost = is_served and known.get(row.order_id) != row.lease_epoch and (row.lease_until or 0.0) >= now
            if not is_lost:
                continue
            # The row may be older than the log: only what the execution itself says of the lease counts.
            loaded = await self._decisions.load(row.execution_id)
            lease = loaded.execution.lease_of(row.order_id)
            if lease is not None and (lease.worker_id, lease.lease_epoch) == (turn.worker_id, row.lease_epoch):
                order = order_for(loaded.plan, loaded.execution, row.order_id, self._decisions.terms)
                orders.append(msgspec.structs.replace(order, lease_until=row.lease_until or 0.0))
        return orders


# New orders that one `seek` finds. Orders in memory are on the same page of the store, so `seek` asks for as many more,
# up to the bound.
SOUGHT = 1_000
MOST_SOUGHT = 20_000
AT_MOST_EVERY_S = 0.1  # between looks into the store on behalf of workers that find nothing in memory
_REST_S = 30.0  # before an order is tried again that the store offers and its execution does not know
_PAUSE_S = 1.0  # after a failed fetch from the results store


class Claims:
    """Claims orders for workers; every method runs inside a batch. `ability_of` returns the tool kinds and labels of a
    worker by its id; without it every worker runs everything. `waiting_for_results` keeps orders whose executions need
    a large result first."""

    def __init__(
        self,
        decisions: Decisions,
        store: Store,
        clock: Clock,
        policy: SharingPolicy,
        *,
        pools: Pools,
        leases: OrderLeases,
        waiting_for_results: WaitingForResults,
        ability_of: Callable[[str], WorkerAbilities] | None = None,
    ) -> None:
        self._decisions, self._store, self._clock, self._policy = decisions, store, clock, policy
        self._pools, self._leases, self._waiting_for_results = pools, leases, waiting_for_results
        self._ability_of = ability_of or (lambda _: ANY)
        # In the past, so that the first worker that finds nothing in memory causes a look into the store at once.
        self._sought_at = float("-inf")
        self.poison_orders = PoisonOrders(decisions, store, clock)

    async def claim(self, turn: Turn, batch: CommitBatch) -> list[Order]:
        """Claim as many ready orders as the worker has capacity for. It may have them after the commit."""
        if self._policy.has_many_workers:
            return await self._claim_for_pools(turn, batch)
        claimed: list[Order] = []
        while len(claimed) < turn.capacity and (ready := self._decisions.ready.take()) is not None:
            try:
                await self._decisions.load(ready.execution_id)
                self._take(ready, turn, batch, claimed)
            except BaseException:
                # Taken out of `ReadyOrders`, not yet in the log: otherwise it is lost until the next sweep.
                self._put_back([ready], batch)
                raise
        return claimed

    def has_for(self, turn: Turn) -> bool:
        """Whether memory has a ready order that this worker can probably take."""
        return not self._pools.drains.holds(turn.worker_id) and bool(
            self._pools_of(turn, self._ability_of(turn.worker_id))
        )

    async def _claim_for_pools(self, turn: Turn, batch: CommitBatch) -> list[Order]:
        claimed: list[Order] = []
        # A turn that only reports: all slots of the worker are busy.
        if turn.capacity <= 0:
            return claimed
        # The worker says what it holds only after an answer was lost (see worker/remote_control_plane.py).
        if turn.holding is not None:
            claimed = await self._leases.unanswered_orders(turn)
            if len(claimed) >= turn.capacity:
                return claimed
        if turn.worker_id in await self._pools.drains.all():
            return claimed  # a drained worker finishes its own orders and gets no new ones
        ability = self._ability_of(turn.worker_id)
        closed = await self._pools.closed_to(ability)
        # Orders of other servers are only in the store. The limit keeps a crowd of idle workers from asking it at
        # every poll.
        if not self._pools_of(turn, ability) and self._clock.now() - self._sought_at >= AT_MOST_EVERY_S:
            await self.seek()
        # Before the ordinary claim: a worker that runs a suspect order gets nothing else (see poison_orders.py).
        if (offer := await self.poison_orders.offer(turn, partial(self._may_take, ability, closed))) is not None:
            return claimed if offer.order is None else claimed + await self._claim_alone(offer.order, turn, batch)
        # Asked again, since `seek` may have found orders of further pools.
        if not (pools := self._pools_of(turn, ability) - closed):
            return claimed
        gate, rooms = await self._pools.gate(pools, turn.capacity)
        while candidates := self._candidates(turn.capacity - len(claimed), gate, ability):
            try:
                await self._follow(candidates)
                for ready in candidates:
                    # `_candidates` has counted it against the limit of its pool already.
                    if not await self._take_safely(ready, turn, batch, claimed):
                        gate.count_claimed(ready.pool, -1)
            except BaseException:
                self._put_back(candidates, batch)
                raise
        if claimed:
            # The store checks the capacity again inside the commit: two servers may both have seen the last free
            # place.
            batch.enforce_capacity(rooms)
        return claimed

    async def _claim_alone(self, suspect: ReadyOrder, turn: Turn, batch: CommitBatch) -> list[Order]:
        """Claim one suspect order for a worker that holds nothing else."""
        claimed: list[Order] = []
        gate, rooms = await self._pools.gate({suspect.pool}, 1)
        if suspect.pool not in gate.open:
            self._decisions.ready.add(suspect)
            return claimed
        try:
            if await self._take_safely(suspect, turn, batch, claimed):
                batch.enforce_capacity(rooms)
        except BaseException:
            self._put_back([suspect], batch)
            raise
        return claimed

    def _pools_of(self, turn: Turn, ability: WorkerAbilities) -> set[str]:
        """The pools of the worker in which an order is ready for it."""
        pools = self._decisions.ready.pools_for(ability.kinds)
        return pools if EVERY in turn.pools else pools.intersection(turn.pools)

    def _may_take(self, ability: WorkerAbilities, closed: set[str], ready: ReadyOrder) -> bool:
        return ready.pool not in closed and ability.runs(self._decisions.ready.needs_of(ready.order_id))

    def _candidates(self, number: int, gate: PoolLimit, ability: WorkerAbilities) -> list[ReadyOrder]:
        """Take up to `number` orders out of `ReadyOrders`, counted against the limits of their pools."""
        candidates: list[ReadyOrder] = []
        while len(candidates) < number and (ready := self._decisions.ready.take(gate.open, ability.kinds)) is not None:
            # Dropped, not put back: the sweep finds it again when its quarantine is over.
            if self._decisions.quarantine.holds(ready.execution_id):
                continue
            if not self.poison_orders.divert(ready):
                candidates.append(ready)
                gate.count_claimed(ready.pool)
        return candidates

    def _put_back(self, candidates: list[ReadyOrder], batch: CommitBatch) -> None:
        """Make orders ready again after an error."""
        for ready in candidates:
            # A touched execution is read again together with its orders. The others only the next sweep would find.
            if ready.execution_id not in batch.touched:
                self._decisions.ready.add(ready)

    async def _follow(self, candidates: list[ReadyOrder]) -> None:
        """Catch up with the executions of all candidates in one query. Orders that another server has claimed are then
        refused here."""
        with suppress(UnreadableError):  # each is loaded alone afterwards, which shows the broken one
            await self._decisions.follow({ready.execution_id for ready in candidates})

    async def _take_safely(self, ready: ReadyOrder, turn: Turn, batch: CommitBatch, claimed: list[Order]) -> bool:
        """Claim an order; False when it was not possible. An execution that raises is put into quarantine, and the
        claim is decided again without it."""
        # Its results are being fetched already; it becomes ready again when they are in memory.
        if self._waiting_for_results.takes(ready):
            return False
        try:
            loaded = await self._decisions.load(ready.execution_id)
            needs = needs_of(loaded.plan, loaded.execution, ready.order_id)
            if not self._ability_of(turn.worker_id).runs(needs):
                # The tool kinds of an order follow from its net, which is loaded only here. So the first worker that
                # cannot run the order finds it out.
                self._leave_for_others(ready, needs)
                return False
            verdict = self._take(ready, turn, batch, claimed)
        except ResultNotLoadedError as problem:
            # The scope of an order may need a stored result. Other orders do not wait until it is loaded.
            self._waiting_for_results.lay_aside(ready, problem)
            raise DecideAgainError from problem
        except Exception as problem:
            # An unreachable store is not the fault of this execution.
            if isinstance(problem, BackendError) and not isinstance(problem, UnreadableError):
                raise
            self._decisions.quarantine.note(ready.execution_id, problem)
            raise DecideAgainError from problem
        if verdict not in (ReportResult.ACCEPTED, ReportResult.PAUSED):
            # The row in the store is older than the log, so `seek` would find it again at once.
            self._decisions.quarantine.postpone(_lease(ready), _REST_S)
        return verdict is ReportResult.ACCEPTED

    def _leave_for_others(self, ready: ReadyOrder, needs: Needs) -> None:
        """Leave an order ready for a worker that runs the tool kinds it needs."""
        self._decisions.ready.learn(ready.order_id, needs)
        if not self.poison_orders.divert(ready):
            self._decisions.ready.add(ready)

    def _take(self, ready: ReadyOrder, turn: Turn, batch: CommitBatch, claimed: list[Order]) -> ReportResult:
        """Decide the claim of one order; an accepted one is added to `claimed`."""
        loaded = self._decisions.loaded[ready.execution_id]
        # Another server may have paused it after this one offered the order.
        if loaded.execution.lifecycle.paused:
            self._decisions.ready.lay_aside(ready)  # nothing new is dispatched (SRV-07)
            return ReportResult.PAUSED
        command = ClaimOrder(
            at=self._clock.now(), order_id=ready.order_id, worker_id=turn.worker_id, seen_epoch=ready.seen_epoch
        )
        verdict = self._decisions.decide(batch, ready.execution_id, command).verdict
        if verdict is ReportResult.ACCEPTED:
            # Made right after the claim: its scopes are those of this moment, before later decisions of the batch.
            terms = self._decisions.terms
            claimed.append(order_for(loaded.plan, loaded.execution, ready.order_id, terms, at=command.at))
        return verdict

    async def seek(self) -> list[OrderRow]:
        """Find orders in the store: ready ones, and those whose lease has run out. Returns those that too many workers
        were lost with."""
        self._sought_at = now = self._clock.now()
        ready, quarantine = self._decisions.ready, self._decisions.quarantine
        limit = min(SOUGHT + len(ready) + ready.set_aside_count, MOST_SOUGHT)
        worn_out: list[OrderRow] = []
        for order in await self._store.claimable(now=now, limit=limit):
            found = ready_order(order)
            # Each of these waits for something else already; offering it again would only be refused again.
            if quarantine.holds(order.execution_id) or quarantine.holds(_lease(found)) or ready.is_aside(found):
                continue
            # A lease that its holder ended itself counts no loss: draining a worker must not use up the attempts of
            # its orders.
            is_lost = order.state is OrderState.LEASED and order.lease_until != GIVEN_BACK
            if is_lost and order.lease_epoch >= MOST_LEASES:
                worn_out.append(order)
            elif not self.poison_orders.divert(found):
                ready.add(found)
        return worn_out


def _lease(ready: ReadyOrder) -> str:
    """The name of an order under one lease, in the quarantine."""
    return f"{ready.order_id}@{ready.seen_epoch}"


class WaitingForResults:
    """Orders whose executions need a large result before anything can be decided upon them. Claims go on without them;
    `offer_again` makes them ready when the result is in memory."""

    def __init__(self, offer_again: Callable[[Iterable[ReadyOrder]], None]) -> None:
        self._offer_again = offer_again
        self._orders: dict[str, dict[str, ReadyOrder]] = {}  # by execution and order
        # The event loop keeps weak references to tasks only.
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, ready: ReadyOrder) -> bool:
        """Keep the order here if its execution already waits for a result; False when it does not."""
        if not self._orders or (waiting := self._orders.get(ready.execution_id)) is None:
            return False
        # Other orders of the same execution need the same result: they wait together, without a fetch each.
        waiting[ready.order_id] = ready
        return True

    def lay_aside(self, ready: ReadyOrder, missing: ResultNotLoadedError) -> None:
        """Keep the order until the missing result was fetched."""
        self._orders.setdefault(ready.execution_id, {})[ready.order_id] = ready
        task = asyncio.ensure_future(self._fetch_then_requeue(ready.execution_id, missing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch_then_requeue(self, execution_id: str, missing: ResultNotLoadedError) -> None:
        try:
            await missing.fetch()
        except BackendError:
            await asyncio.sleep(_PAUSE_S)  # the next claim tries to fetch it again
        self._offer_again(self._orders.pop(execution_id, {}).values())

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
