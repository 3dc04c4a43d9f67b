"""Timers: executions are woken when their moment has come (TMR-06).

The moment is in the execution's row, written with the decision that set it, so nothing is lost with a process. A
process that drives its own executions sleeps until the nearest of them. A server asks the store for all that are
due. Several servers may wake the same execution; for all but the first there is nothing left to do.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.errors import NoetlError, Outage, log_failure
from noetl.control.executions import Executions
from noetl.engine.commands import Wake
from noetl.engine.execution import Execution
from noetl.store.contract import Commit, Store

MOST_AT_ONCE = 100  # executions woken in one transaction, before others have their turn
POLL_S = 1.0  # other servers set alarms in the store, and nobody rings for it
ASIDE_S = 30.0  # until one that could not be woken is tried again

Sleep = Callable[[float], Awaitable[None]]
_log = logging.getLogger(__name__)


class Timers:
    """The moments of the executions that this process has decided upon, the nearest first. Hears of every commit."""

    def __init__(self) -> None:
        self._aside: dict[str, float] = {}  # could not be woken, and until when they are let be
        # May hold entries that are out of date; `_moments` has the truth, one moment for each execution.
        self._heap: list[tuple[float, str]] = []
        self._moments: dict[str, float] = {}
        self.sooner = asyncio.Event()  # set when there is a nearer moment than there was

    def set(self, execution_id: str, moment: float | None) -> None:
        if moment is None:
            self._moments.pop(execution_id, None)
        elif self._moments.get(execution_id) != moment:
            nearest = self.nearest()
            self._moments[execution_id] = moment
            # The old entry stays in the heap; `nearest` drops entries that `_moments` no longer confirms.
            heappush(self._heap, (moment, execution_id))
            if nearest is None or moment < nearest:
                self.sooner.set()

    def nearest(self) -> float | None:
        while self._heap and self._moments.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float, limit: int) -> list[str]:
        """Those whose moment has come; they are set again by whatever waking them leads to."""
        found: list[str] = []
        while len(found) < limit and (nearest := self.nearest()) is not None and nearest <= now:
            execution_id = heappop(self._heap)[1]
            del self._moments[execution_id]
            found.append(execution_id)
        return found

    def lay_aside(self, execution_id: str, until: float) -> None:
        """It could not be woken. It does not keep anybody busy until then, unless it moves."""
        self._aside[execution_id] = until
        self.set(execution_id, until)

    def laid_aside(self, now: float) -> Collection[str]:
        self._aside = {one: until for one, until in self._aside.items() if until > now}
        return self._aside

    def stored(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            row = commit.execution
            if self._aside:
                self._aside.pop(row.execution_id, None)  # it moves after all
            if row.wake_at is not None or row.execution_id in self._moments:
                self.set(row.execution_id, row.wake_at)

    def taken_up(self, execution: Execution) -> None:
        self.set(execution.execution_id, execution.wake_at)


class TimerQueue:
    """Tells the control plane when an execution is to be woken. `timers` are those that this process knows."""

    def __init__(
        self, executions: Executions, timers: Timers, store: Store, clock: Clock, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._executions, self._timers, self._store = executions, timers, store
        self._clock, self._sleep = clock, sleep
        self._outage = Outage(_log, "timers were not looked for", "timers are looked for again")

    async def serve_own(self) -> None:
        """Wake the executions that are driven here, for as long as anybody wants it."""
        while True:
            while woken := self._timers.take_due(self._clock.now(), MOST_AT_ONCE):
                await self._wake(woken)
            await self._sleep_until(None)

    async def serve_all(self) -> None:
        """Wake every execution of the store, for as long as anybody wants it."""
        while True:
            try:
                while await self.wake_due():
                    await asyncio.sleep(0)  # a crowd is woken in parts, so that others have their turn
                nearest = await self._store.next_due()
                self._outage.worked()
            except NoetlError as problem:  # the store is away, say: it will be back
                self._outage.failed(problem)
                nearest = None
            poll_at = self._clock.now() + POLL_S
            is_near = nearest is not None and self._clock.now() < nearest < poll_at  # one laid aside is overdue
            await self._sleep_until(nearest if is_near else poll_at)

    async def wake_due(self) -> int:
        """Wake some of those that are due in the store; gives how many there were."""
        now = self._clock.now()
        # Thrown away: on a server this heap only serves to sleep for the right time.
        self._timers.take_due(now, sys.maxsize)  # the store knows them, and what others did about them
        aside = self._timers.laid_aside(now)
        # Those laid aside are still due in the store and come first: without the addition they could fill the page.
        rows = await self._store.due(now=now, limit=MOST_AT_ONCE + len(aside))
        due = [row.execution_id for row in rows if row.execution_id not in aside]
        await self._wake(due)
        return len(due)

    async def _wake(self, execution_ids: Sequence[str]) -> None:
        """All in one transaction; should that fail, each on its own, and who cannot be woken is laid aside."""
        try:
            await self._wake_together(execution_ids)
        except NoetlError as problem:
            if len(execution_ids) > 1:
                for execution_id in execution_ids:
                    await self._wake([execution_id])
                return
            for execution_id in execution_ids:
                log_failure(_log, problem, "execution %s could not be woken", execution_id)
                self._lay_aside([execution_id])

    async def _wake_together(self, execution_ids: Sequence[str]) -> None:
        command = Wake(at=self._clock.now())
        if execution_ids:
            crash_point("alarm.before")
        decisions = await self._executions.submit_all([(one, command) for one in execution_ids])
        if execution_ids:
            crash_point("alarm.after")
        woken = zip(execution_ids, decisions, strict=True)
        # Else `wake_due` would find them due again at once, and turn in a tight loop.
        self._lay_aside(one for one, decision in woken if not decision.events)

    def _lay_aside(self, execution_ids: Iterable[str]) -> None:
        """Nothing came of waking these: another server was quicker, or something is wrong with them. Either way they
        do not keep anybody busy."""
        until = self._clock.now() + ASIDE_S
        for execution_id in execution_ids:
            self._timers.lay_aside(execution_id, until)

    async def _sleep_until(self, until: float | None) -> None:
        """Return when the nearest moment comes, or at `until`, or once there is a nearer one than there was."""
        moments = [one for one in (until, self._timers.nearest()) if one is not None]
        # Cleared before waiting, after reading the nearest moment: no await lies between, so no change is missed.
        self._timers.sooner.clear()
        sooner = asyncio.ensure_future(self._timers.sooner.wait())
        resting: list[asyncio.Future[Any]] = [sooner]
        if moments:
            resting.append(asyncio.ensure_future(self._sleep(max(0.0, min(moments) - self._clock.now()))))
        try:
            await asyncio.wait(resting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in resting:
                future.cancel()
            await asyncio.wait(resting)  # whose end is theirs alone: to be cancelled here and now still counts
