"""Long polls: remote workers that wait for an order. What a batch makes ready is claimed for them in the same batch,
so that the start of an execution and its first claim are one commit instead of two.

A poll that ends while a batch has claimed for it waits for the end of that batch: either its orders are stored and
go out with its answer, or they stay unclaimed. Orders that become ready in another way, from other servers or by
the sweep, are announced by a wake-up and claimed by the worker that receives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from noetl.control.claiming.claims import Claims
from noetl.control.claiming.ready_orders import LocalWorker, ReadyOrders
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.effects import Effects
from noetl.events.orders import Order, Turn

IsGone = Callable[[], Awaitable[bool]]


class Poll:
    """`is_gone`: nobody would hear the answer."""

    def __init__(self, turn: Turn, is_gone: IsGone) -> None:
        self.turn, self.is_gone = turn, is_gone
        self.orders: tuple[Order, ...] = ()
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.free = asyncio.Event()  # no batch claims for it
        self.free.set()

    def give(self, orders: Sequence[Order]) -> None:
        """Once they are stored."""
        self.orders = tuple(orders)
        if not self.answered.done():
            self.answered.set_result(None)


class Polls:
    """`effects` tell of orders that are still ready. `local_worker` is the one in this process, which polls nobody."""

    def __init__(self, claims: Claims, ready: ReadyOrders, effects: Effects, local_worker: LocalWorker | None) -> None:
        self._claims, self._ready, self._effects, self._local_worker = claims, ready, effects, local_worker
        # An ordered set: who has waited longest is given orders first.
        self._open: dict[Poll, None] = {}

    async def wait(self, turn: Turn, is_gone: IsGone, wakeups: Awaitable[bool]) -> tuple[Order, ...]:
        """Until orders are handed out to this turn, or the bell rings or is tired of waiting: then none."""
        poll, rung = Poll(turn, is_gone), asyncio.ensure_future(wakeups)
        either: tuple[asyncio.Future[Any], ...] = rung, poll.answered
        self._open[poll] = None
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._open[poll]
            has_rung = rung.done() and rung.result()
            rung.cancel()
        # A batch may be claiming for this poll right now. Leaving would lose orders that it is about to store.
        await poll.free.wait()
        if poll.orders and has_rung:
            self._effects.notify_workers()  # it was for another order, which nobody would look for now
        return poll.orders

    async def hand_out(self, batch: CommitBatch) -> None:
        """What is ready goes to the worker in this process, if it has nothing to do."""
        # Asked at every commit: where there is no such worker, or nothing for it, this must cost nothing.
        worker = self._local_worker
        if worker is not None and self._ready and worker.free:
            turn = Turn(worker_id=worker.worker_id, capacity=worker.free)
            batch.given[worker] = await self._claims.claim(turn, batch)

    def claims(self) -> list[Callable[[CommitBatch], Awaitable[None]]]:
        """What is to be decided at the end of a batch, for those who poll."""
        return [self._claim_for_polls] if self._open else []

    async def _claim_for_polls(self, batch: CommitBatch) -> None:
        refused: set[tuple[str, tuple[str, ...]]] = set()
        for poll in list(self._open):
            turn = poll.turn
            who = turn.worker_id, turn.pools
            # Several polls of one worker see the same orders: one refusal is enough. A closed connection must not be
            # given anything, or the order waits for its lease to run out.
            if who in refused or poll.orders or not self._claims.has_for(turn) or await poll.is_gone():
                continue
            # `is_gone` has awaited: the poll may have ended meanwhile.
            if poll in self._open and not await self._claim(poll, batch):
                refused.add(who)

    async def _claim(self, poll: Poll, batch: CommitBatch) -> bool:
        """Whether something was there for it."""
        poll.free.clear()
        # Runs whether the commit succeeds or not; else the poll would wait for ever.
        batch.at_the_end.append(poll.free.set)
        given = batch.given.get(poll, [])
        # `holding` is cleared: what the worker missed was looked up by its turn before it began to wait.
        wanted = msgspec.structs.replace(poll.turn, capacity=poll.turn.capacity - len(given), holding=None)
        claimed = await self._claims.claim(wanted, batch)
        if claimed:
            batch.given[poll] = [*given, *claimed]
        return bool(claimed)
