"""Timers: executions are woken when the time has come that they wait for (TMR-06).

That time is `wake_at` of the execution's row, stored with the decision that set it, so no timer is lost with a process.
An embedded run sleeps until the nearest `wake_at` of its own executions. A server asks the store for all that are due.
Several servers may wake the same execution: the store accepts the first commit, and the others find nothing due.
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
POLL_S = 1.0  # other servers set timers in the store without a wake-up to this one
ASIDE_S = 30.0  # until an execution that could not be woken is tried again

Sleep = Callable[[float], Awaitable[None]]
_log = logging.getLogger(__name__)


class Timers:
    """The next wake-up time of each execution that this process has decided upon. A listener of commits."""

    def __init__(self) -> None:
        self._aside: dict[str, float] = {}  # executions that could not be woken, and when they are tried again
        # May hold entries that are out of date; `_moments` has the current one of each execution.
        self._heap: list[tuple[float, str]] = []
        self._moments: dict[str, float] = {}
        self.sooner = asyncio.Event()  # set when the nearest moment is now an earlier one

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
        """Remove and return the executions whose moment has come. The commit that wakes them sets the next moment."""
        found: list[str] = []
        while len(found) < limit and (nearest := self.nearest()) is not None and nearest <= now:
            execution_id = heappop(self._heap)[1]
            del self._moments[execution_id]
            found.append(execution_id)
        return found

    def lay_aside(self, execution_id: str, until: float) -> None:
        """Note that an execution could not be woken: it is not tried again before `until`, unless a commit moves it."""
        self._aside[execution_id] = until
        self.set(execution_id, until)

    def laid_aside(self, now: float) -> Collection[str]:
        self._aside = {one: until for one, until in self._aside.items() if until > now}
        return self._aside

    def stored(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            row = commit.execution
            if self._aside:
                self._aside.pop(row.execution_id, None)  # a commit has moved it
            if row.wake_at is not None or row.execution_id in self._moments:
                self.set(row.execution_id, row.wake_at)

    def taken_up(self, execution: Execution) -> None:
        self.set(execution.execution_id, execution.wake_at)


class TimerQueue:
    """Sends `Wake` commands to executions that are due. `timers` are those that this process knows."""

    def __init__(
        self, executions: Executions, timers: Timers, store: Store, clock: Clock, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._executions, self._timers, self._store = executions, timers, store
        self._clock, self._sleep = clock, sleep
        self._outage = Outage(_log, "timers were not looked for", "timers are looked for again")

    async def serve_own(self) -> None:
        """Wake the executions of this process, until cancelled."""
        while True:
            while woken := self._timers.take_due(self._clock.now(), MOST_AT_ONCE):
                await self._wake(woken)
            await self._sleep_until(None)

    async def serve_all(self) -> None:
        """Wake every execution of the store, until cancelled."""
        while True:
            try:
                while await self.wake_due():
                    await asyncio.sleep(0)  # many are woken in parts, so that other tasks run in between
                nearest = await self._store.next_due()
                self._outage.worked()
            except NoetlError as problem:  # an unreachable store, for example: try again
                self._outage.failed(problem)
                nearest = None
            poll_at = self._clock.now() + POLL_S
            # In the past: that of an execution which is laid aside.
            is_near = nearest is not None and self._clock.now() < nearest < poll_at
            await self._sleep_until(nearest if is_near else poll_at)

    async def wake_due(self) -> int:
        """Wake some of the executions that are due in the store; returns how many."""
        now = self._clock.now()
        # The result is not used: on a server this heap only says how long to sleep. Which executions are due is asked
        # of the store, which has what other servers did.
        self._timers.take_due(now, sys.maxsize)
        aside = self._timers.laid_aside(now)
        # Those laid aside are still due in the store and come first: without the addition they could fill the page.
        rows = await self._store.due(now=now, limit=MOST_AT_ONCE + len(aside))
        due = [row.execution_id for row in rows if row.execution_id not in aside]
        await self._wake(due)
        return len(due)

    async def _wake(self, execution_ids: Sequence[str]) -> None:
        """Wake all in one transaction. If that fails, wake each alone and lay aside those that fail."""
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
        # Otherwise `wake_due` would find them due again at once, in a busy loop.
        self._lay_aside(one for one, decision in woken if not decision.events)

    def _lay_aside(self, execution_ids: Iterable[str]) -> None:
        """Do not try these again for a while: waking them changed nothing, since another server was first or they
        fail."""
        until = self._clock.now() + ASIDE_S
        for execution_id in execution_ids:
            self._timers.lay_aside(execution_id, until)

    async def _sleep_until(self, until: float | None) -> None:
        """Return at the nearest moment, at `until`, or as soon as an earlier moment is set."""
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
            # `wait` and not `gather`: it raises only if this task is cancelled, not when the futures are.
            await asyncio.wait(resting)
