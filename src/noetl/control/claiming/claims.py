"""Claims: which orders a worker gets, of its pools and in fair turns. One broken order never stops the others (SRV-08).
Orders that wait for a large value are offered again when it is here.

Orders that this process does not know, since another server made them or this one was restarted, are found in the
store: by the search for lost work, and when a worker asks and memory has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, UnreadableError
from noetl.control.claiming.leases import GIVEN_BACK, OrderLeases
from noetl.control.claiming.order_needs import ANY, WorkerAbilities, needs_of
from noetl.control.claiming.orders import order_for
from noetl.control.claiming.poison_orders import PoisonOrders
from noetl.control.claiming.pools import EVERY, PoolLimit, Pools
from noetl.control.claiming.ready_orders import Needs, Ready
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Decisions, ready_of
from noetl.control.commit.group_commit import DecideAgainError
from noetl.control.commit.sharing import SharingPolicy
from noetl.control.results.result_cache import ResultNotLoadedError
from noetl.engine.commands import ClaimOrder
from noetl.engine.lost_leases import MOST_LEASES
from noetl.events.orders import Order, ReportResult, Turn
from noetl.store.contract import OrderRow, OrderState, Store

# A page of the store's index. Orders that memory knows are on the page too, so `seek` asks for as many more, up to the
# bound.
SOUGHT = 1_000  # new orders found at a time
MOST_SOUGHT = 20_000
AT_MOST_EVERY_S = 0.1  # a worker that finds nothing makes us look in the store
_REST_S = 30.0  # for an order that the store offers and its execution does not know
_PAUSE_S = 1.0  # when the store of results is away


class Claims:
    """All of it inside a batch. `ability_of` says what a worker can do, by its id; without it all of them can do
    everything. `expected` keeps orders whose executions need a value from outside first."""

    def __init__(
        self,
        decisions: Decisions,
        store: Store,
        clock: Clock,
        policy: SharingPolicy,
        *,
        pools: Pools,
        leases: OrderLeases,
        expected: WaitingForResults,
        ability_of: Callable[[str], WorkerAbilities] | None = None,
    ) -> None:
        self._decisions, self._store, self._clock, self._policy = decisions, store, clock, policy
        self._pools, self._leases, self._expected = pools, leases, expected
        self._able = ability_of or (lambda _: ANY)
        # So that the first worker that finds nothing makes us look at once.
        self._sought_at = float("-inf")
        self.poison_orders = PoisonOrders(decisions, store, clock)

    async def claim(self, turn: Turn, batch: CommitBatch) -> list[Order]:
        if self._policy.has_many_workers:
            return await self._claim_for_pools(turn, batch)
        claimed: list[Order] = []
        while len(claimed) < turn.capacity and (ready := self._decisions.ready.take()) is not None:
            try:
                await self._decisions.load(ready.execution_id)
                self._take(ready, turn, batch, claimed)
            except BaseException:
                # Taken out of memory, not yet in the log: without this nobody would offer it before the next sweep.
                self._put_back([ready], batch)
                raise
        return claimed

    def has_for(self, turn: Turn) -> bool:
        """Whether memory has something that this worker may well take."""
        return not self._pools.drains.holds(turn.worker_id) and bool(self._pools_of(turn, self._able(turn.worker_id)))

    async def _claim_for_pools(self, turn: Turn, batch: CommitBatch) -> list[Order]:
        claimed: list[Order] = []
        # A turn that only reports: all slots of the worker are busy.
        if turn.capacity <= 0:
            return claimed
        # The worker says what it holds only after an answer was lost (see worker/remote_control_plane.py).
        if turn.holding is not None:
            claimed = await self._leases.unanswered_orders(turn)
            if len(claimed) >= turn.capacity:
                return claimed  # it takes others when it knows of these
        if turn.worker_id in await self._pools.drains.all():
            return claimed  # what it was given already it may keep
        ability = self._able(turn.worker_id)
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
            batch.limit_to(rooms)
        return claimed

    async def _claim_alone(self, suspect: Ready, turn: Turn, batch: CommitBatch) -> list[Order]:
        claimed: list[Order] = []
        gate, rooms = await self._pools.gate({suspect.pool}, 1)
        if suspect.pool not in gate.open:
            self._decisions.ready.add(suspect)
            return claimed
        try:
            if await self._take_safely(suspect, turn, batch, claimed):
                batch.limit_to(rooms)
        except BaseException:
            self._put_back([suspect], batch)
            raise
        return claimed

    def _pools_of(self, turn: Turn, ability: WorkerAbilities) -> set[str]:
        """The worker's pools, as far as there is something to do in them."""
        pools = self._decisions.ready.pools_for(ability.kinds)
        return pools if EVERY in turn.pools else pools.intersection(turn.pools)

    def _may_take(self, ability: WorkerAbilities, closed: set[str], ready: Ready) -> bool:
        return ready.pool not in closed and ability.runs(self._decisions.ready.needs_of(ready.order_id))

    def _candidates(self, number: int, gate: PoolLimit, ability: WorkerAbilities) -> list[Ready]:
        found: list[Ready] = []
        while len(found) < number and (ready := self._decisions.ready.take(gate.open, ability.kinds)) is not None:
            # Dropped, not put back: the sweep finds it again when its quarantine is over.
            if self._decisions.quarantine.holds(ready.execution_id):
                continue
            if not self.poison_orders.divert(ready):
                found.append(ready)
                gate.count_claimed(ready.pool)
        return found

    def _put_back(self, candidates: list[Ready], batch: CommitBatch) -> None:
        """What was decided upon is read again with its orders; the others would be found by the next sweep only."""
        for ready in candidates:
            if ready.execution_id not in batch.touched:
                self._decisions.ready.add(ready)

    async def _follow(self, candidates: list[Ready]) -> None:
        """Catch up with all of them at once. Those that were taken elsewhere meanwhile are not taken here."""
        with suppress(UnreadableError):  # each is loaded on its own, and whose fault it is shows then
            await self._decisions.follow({ready.execution_id for ready in candidates})

    async def _take_safely(self, ready: Ready, turn: Turn, batch: CommitBatch, claimed: list[Order]) -> bool:
        """Whether the order was taken. An execution that breaks is put into quarantine, and all is decided again."""
        # Its values are being fetched already; it comes back when they are here.
        if self._expected.takes(ready):
            return False
        try:
            loaded = await self._decisions.load(ready.execution_id)
            needs = needs_of(loaded.plan, loaded.execution, ready.order_id)
            if not self._able(turn.worker_id).runs(needs):
                # What an order needs follows from its net, and that is only loaded here. So the first worker that
                # cannot run it pays for finding out.
                self._leave(ready, needs)
                return False
            verdict = self._take(ready, turn, batch, claimed)
        except ResultNotLoadedError as problem:
            # The scope of an order may need a stored result. Other orders do not wait until it is loaded.
            self._expected.lay_aside(ready, problem)
            raise DecideAgainError from problem
        except Exception as problem:
            # A store that is away is not the fault of this execution.
            if isinstance(problem, BackendError) and not isinstance(problem, UnreadableError):
                raise
            self._decisions.quarantine.note(ready.execution_id, problem)
            raise DecideAgainError from problem
        if verdict not in (ReportResult.ACCEPTED, ReportResult.PAUSED):
            self._decisions.quarantine.postpone(_lease(ready), _REST_S)  # the store may go on offering it
        return verdict is ReportResult.ACCEPTED

    def _leave(self, ready: Ready, needs: Needs) -> None:
        """It is for a worker that runs what it needs; it stays ready until there is one."""
        self._decisions.ready.learn(ready.order_id, needs)
        if not self.poison_orders.divert(ready):
            self._decisions.ready.add(ready)

    def _take(self, ready: Ready, turn: Turn, batch: CommitBatch, claimed: list[Order]) -> ReportResult:
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
            # The scopes as of this moment.
            terms = self._decisions.terms
            claimed.append(order_for(loaded.plan, loaded.execution, ready.order_id, terms, at=command.at))
        return verdict

    async def seek(self) -> list[OrderRow]:
        """Find orders in the store: ready ones, and those whose lease has run out. Gives those that too many workers
        were lost with."""
        self._sought_at = now = self._clock.now()
        ready, quarantine = self._decisions.ready, self._decisions.quarantine
        limit = min(SOUGHT + len(ready) + ready.set_aside_count, MOST_SOUGHT)  # those known already are among them
        worn_out: list[OrderRow] = []
        for order in await self._store.claimable(now=now, limit=limit):
            found = ready_of(order)
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


def _lease(ready: Ready) -> str:
    return f"{ready.order_id}@{ready.seen_epoch}"


# Orders whose executions need a value from outside before anything can be decided upon them.
#
# A claim goes on without them. They are offered again when the value is here.


class WaitingForResults:
    """`come_back` offers orders again."""

    def __init__(self, come_back: Callable[[Iterable[Ready]], None]) -> None:
        self._come_back = come_back
        self._orders: dict[str, dict[str, Ready]] = {}  # by execution and order
        # The event loop keeps weak references to tasks only.
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, ready: Ready) -> bool:
        """Whether the order is one of these, and is kept here."""
        if not self._orders or (waiting := self._orders.get(ready.execution_id)) is None:
            return False
        # Other orders of the same execution would need the same value: they wait together, without a request each.
        waiting[ready.order_id] = ready
        return True

    def lay_aside(self, ready: Ready, away: ResultNotLoadedError) -> None:
        self._orders.setdefault(ready.execution_id, {})[ready.order_id] = ready
        task = asyncio.ensure_future(self._fetch_then_requeue(ready.execution_id, away))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch_then_requeue(self, execution_id: str, away: ResultNotLoadedError) -> None:
        try:
            await away.fetch()
        except BackendError:
            await asyncio.sleep(_PAUSE_S)  # the next claim finds out whether the store is back
        self._come_back(self._orders.pop(execution_id, {}).values())

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
