"""Post: everything a worker says to its office, gathered. What has come together leaves in one turn (PERFORMANCE §2).

No timer holds anything back: while one turn is under way the next one gathers, and when nothing is, what is said leaves
as soon as those who run at this moment have had their word. So iterations that end together share one commit.
"""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.records.orders import Order, Report, Turn, Verdict
from noetl.worker.journal import Journal
from noetl.worker.office import Office

EVERY_POOL = "*"  # of a worker beside its conductor, which runs whatever there is


class _Load:
    """What leaves together: journals to be reported, ends of orders, claims, and who waits for it."""

    def __init__(self) -> None:
        self.journals: dict[Journal, None] = {}
        self.ends: list[Report] = []
        self.claims: list[asyncio.Future[Order | None]] = []
        self.waiting: list[asyncio.Future[None]] = []


class Post:
    def __init__(self, office: Office, worker_id: str, pools: tuple[str, ...] = (EVERY_POOL,)) -> None:
        self._office, self._worker_id, self._pools = office, worker_id, pools
        self._next: _Load | None = None
        self._away: _Load | None = None
        self._carrier: asyncio.Task[None] | None = None
        self._spare: list[Order] = []  # given to slots that had gone when the answer came

    async def flush(self, journal: Journal) -> None:
        """Return once all that the journal holds is durable. LeaseLost if its order is no longer ours."""
        if journal.pending:
            load = self._gathering()
            load.journals[journal] = None
        elif self._away is not None and journal in self._away.journals:
            load = self._away  # it left already, and is not there yet
        else:
            return journal.check()
        arrived = asyncio.get_running_loop().create_future()
        load.waiting.append(arrived)
        await arrived
        return journal.check()

    async def claim(self, end: Report | None) -> Order | None:
        """Report the end of an order, if there is one, and take another, if there is one."""
        load = self._gathering()
        if end is not None:
            load.ends.append(end)
        given: asyncio.Future[Order | None] = asyncio.get_running_loop().create_future()
        load.claims.append(given)
        return await given

    async def hand_in(self, end: Report) -> None:
        """Report the end of an order, and take no other."""
        load = self._gathering()
        load.ends.append(end)
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        load.waiting.append(arrived)
        await arrived

    async def settled(self) -> None:
        """Return once everything that was said has arrived, whoever still waits for it."""
        while self._carrier is not None:
            await asyncio.wait({self._carrier})

    def _gathering(self) -> _Load:
        if self._next is None:
            self._next = _Load()
            if self._carrier is None:
                self._carrier = asyncio.ensure_future(self._carry())
        return self._next

    async def _carry(self) -> None:
        try:
            while self._next is not None:
                self._away, self._next = self._next, None
                try:
                    await self._deliver(self._away)
                except Exception as problem:
                    _tell(self._away, problem)
        finally:
            self._carrier = self._away = None

    async def _deliver(self, load: _Load) -> None:
        journals = [journal for journal in load.journals if journal.pending]
        reports = (*load.ends, *(journal.report() for journal in journals))
        claims = [given for given in load.claims if not given.done()]  # a cancelled slot takes nothing more
        capacity = max(0, len(claims) - len(self._spare))
        turn = Turn(worker_id=self._worker_id, reports=reports, capacity=capacity, pools=self._pools)
        answer = await self._office.turn(turn)
        for journal, verdict in zip(journals, answer.verdicts[len(load.ends) :], strict=True):
            if verdict not in (Verdict.ACCEPTED, Verdict.DUPLICATE):
                journal.lose(verdict)
        for journal in journals:
            journal.paused = journal.order_id in answer.paused
        for journal in journals if answer.stopped else ():
            journal.stop(answer.stopped.get(journal.order_id, ()))
        self._spare += answer.orders
        for given in load.claims:
            if not given.done():
                given.set_result(self._spare.pop(0) if self._spare else None)
        for arrived in load.waiting:
            if not arrived.done():
                arrived.set_result(None)


def _tell(load: _Load, problem: Exception) -> None:
    """Whoever waits breaks with what broke the turn."""
    waiters: list[asyncio.Future[Any]] = [*load.claims, *load.waiting]
    for waiting in waiters:
        if not waiting.done():
            waiting.set_exception(problem)
