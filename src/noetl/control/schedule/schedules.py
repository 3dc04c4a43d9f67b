"""Schedules: start playbooks when their time has come (TMR-01).

Any number of servers may do this on one store. The id of an execution follows from path and time, so of two servers
that start it one finds it there. A schedule moves on only after its executions are durable.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim

from noetl.base.clock import Clock
from noetl.base.errors import NoetlError, Outage, log_failure
from noetl.base.ids import derived
from noetl.control.schedule.schedule_store import BACKFILL, SCHEDULE, ScheduleStore, backfill_of, schedule_of
from noetl.events.triggers import Backfill, Missed, Overlap, Schedule
from noetl.net.net import Net
from noetl.store.contract import ConflictError, Store
from noetl.store.installation import KeyValue

POLL_S = 5.0  # others change schedules in the store, and nobody rings for it
ENDS_POLL_S = 1.0  # while somebody waits for an execution to end
GRACE_S = 60.0  # a time that is kept so late was not missed
MOST_AT_ONCE = 100  # starts of one schedule before the others have their turn
MOST_QUEUED = 1_000

_log = logging.getLogger(__name__)


class ScheduledStarter(Protocol):
    """Who begins executions: the control plane."""

    async def start(self, net: Net, *, execution_id: str, trace_id: str, payload: dict[str, Any]) -> None: ...

    async def net(self, net_hash: str) -> Net: ...

    async def cancel(self, execution_id: str, reason: str) -> object: ...


def execution_id_of(path: str, moment: float) -> str:
    """The execution of a playbook at one of its times: the same one, whoever starts it."""
    # Whole seconds: cron has no finer times, and a float may differ in its last digit.
    return str(UUID(hex=derived("schedule", path, int(moment))))


class Schedules:
    def __init__(self, store: Store, starter: ScheduledStarter, clock: Clock) -> None:
        self._store, self._starter, self._clock = store, starter, clock
        self._schedule_store = ScheduleStore(store.key_values)

    async def serve(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Keep the timetable for as long as anybody wants it."""
        outage = Outage(_log, "schedules were not looked at", "schedules are looked at again")
        while True:
            try:
                wait_s = await self.turn()
                outage.worked()
            except NoetlError as problem:  # the store is away, say: it will be back
                outage.failed(problem)
                wait_s = POLL_S
            await sleep(wait_s)

    async def turn(self) -> float:
        """Start what is due, and give the seconds until somebody should look again. What one schedule cannot do is
        logged, and does not stop the others."""
        waits_s = [POLL_S]
        for kind, keep in ((SCHEDULE, self._keep), (BACKFILL, self._fill)):
            for thing in await self._schedule_store.key_values_of(kind):
                try:
                    waits_s.append(await keep(thing))
                except Exception as problem:  # a poisoned record is its own problem
                    log_failure(_log, problem, "%s %s was not kept", kind, thing.name)
        return max(0.0, min(waits_s))

    async def _keep(self, thing: KeyValue) -> float:
        before, now = schedule_of(thing), self._clock.now()
        if before.paused:
            return POLL_S
        # Queued times are older than those that are due now.
        after = await self._from_queue(before)
        for moment in due(before, now):
            after = await self._start_or_queue(after, moment)
        after = _without_missed(after, now)
        # Written after the starts: a crash in between starts them again, and finds them by their derived ids.
        if after != before:
            await self._schedule_store.replace(thing, after, at=now)  # who was quicker has seen the same
        if after.queued:
            return ENDS_POLL_S
        coming = next(times(after.cron, after.timezone, after=after.kept), None)
        return POLL_S if coming is None else coming + jitter(after, coming) - self._clock.now()

    async def _start_or_queue(self, schedule: Schedule, moment: float) -> Schedule:
        """A time of the schedule has come."""
        execution_id = execution_id_of(schedule.path, moment)
        if schedule.overlap is not Overlap.ALLOW and await self._is_open(schedule.running, but=execution_id):
            if schedule.overlap is Overlap.QUEUE and len(schedule.queued) < MOST_QUEUED:
                return msgspec.structs.replace(schedule, kept=moment, queued=(*schedule.queued, moment))
            if schedule.overlap is not Overlap.CANCEL:
                return msgspec.structs.replace(schedule, kept=moment, skipped=schedule.skipped + 1)
            assert schedule.running is not None
            await self._starter.cancel(schedule.running, "the next one of its schedule begins")
        await self._start(schedule, moment)
        return msgspec.structs.replace(schedule, kept=moment, running=execution_id)

    async def _from_queue(self, schedule: Schedule) -> Schedule:
        while schedule.queued and not await self._is_open(schedule.running):
            moment, *rest = schedule.queued
            await self._start(schedule, moment)
            running = execution_id_of(schedule.path, moment)
            schedule = msgspec.structs.replace(schedule, running=running, queued=tuple(rest))
        return schedule

    async def _fill(self, thing: KeyValue) -> float:
        """Go on with a backfill as far as its limit allows; it goes when it is through."""
        before = backfill_of(thing)
        running = tuple([one for one in before.running if await self._is_open(one)])
        after = msgspec.structs.replace(before, running=running)
        for moment in islice(times(after.cron, after.timezone, after=after.kept, until=after.until), MOST_AT_ONCE):
            if len(after.running) >= after.limit:
                break
            after = await self._fill_in(after, moment)
        else:
            is_through = not any(times(after.cron, after.timezone, after=after.kept, until=after.until))
            if is_through and not after.running:
                await self._schedule_store.remove(thing)
                return POLL_S
        if after != before:
            await self._schedule_store.replace(thing, after, at=self._clock.now())
        return ENDS_POLL_S

    async def _fill_in(self, backfill: Backfill, moment: float) -> Backfill:
        backfill = msgspec.structs.replace(backfill, kept=moment)
        if not await self._start(backfill, moment):
            return msgspec.structs.replace(backfill, known=backfill.known + 1)
        running = (*backfill.running, execution_id_of(backfill.path, moment))
        return msgspec.structs.replace(backfill, running=running, started=backfill.started + 1)

    async def _start(self, what: Schedule | Backfill, moment: float) -> bool:
        """Begin the execution of a moment; False when it is there already."""
        execution_id = execution_id_of(what.path, moment)
        # Saves loading the net. The commit decides if two servers pass here at once.
        if await self._store.execution(execution_id) is not None:
            return False
        written = {"time": as_written(moment, what.timezone), "timezone": what.timezone}
        try:
            await self._starter.start(
                await self._starter.net(what.net_hash),
                execution_id=execution_id,
                trace_id=execution_id.replace("-", ""),
                payload={"schedule": written},
            )
        except ConflictError:
            return False  # another server was quicker
        return True

    async def _is_open(self, execution_id: str | None, *, but: str | None = None) -> bool:
        if execution_id is None or execution_id == but:
            return False
        row = await self._store.execution(execution_id)
        return row is not None and row.finished_at is None


def due(schedule: Schedule, now: float) -> list[float]:
    """The times that are to be kept now, in order."""
    if schedule.missed is Missed.ALL:
        coming = times(schedule.cron, schedule.timezone, after=schedule.kept, until=now)
        found = []
        for moment in islice(coming, MOST_AT_ONCE):
            # Jitter may reorder neighbours. Stopping here keeps the times in their order.
            if moment + jitter(schedule, moment) > now:
                break
            found.append(moment)
        return found
    newest = _newest(schedule, now)
    if newest is None:
        return []
    late_s = now - newest - jitter(schedule, newest)
    return [] if schedule.missed is Missed.NONE and late_s > GRACE_S else [newest]


def _without_missed(schedule: Schedule, now: float) -> Schedule:
    """Times that were missed and are not made up for are settled too."""
    newest = _newest(schedule, now) if schedule.missed is not Missed.ALL else None
    return schedule if newest is None else msgspec.structs.replace(schedule, kept=newest)


def _newest(schedule: Schedule, now: float) -> float | None:
    """The newest time that has come, its jitter counted."""
    until = now
    while (found := newest_time(schedule.cron, schedule.timezone, after=schedule.kept, until=until)) is not None:
        if found + jitter(schedule, found) <= now:
            return found
        until = found - 1.0
    return None


def jitter(schedule: Schedule, moment: float) -> float:
    """How much later than its time a moment comes: another for each playbook, and the same for everybody who asks."""
    if not schedule.jitter_s:
        return 0.0
    # Derived instead of random: every server must compute the same moment.
    share: float = int(derived("jitter", schedule.path, int(moment))[:8], 16) / 0x1_0000_0000
    return share * schedule.jitter_s


# Cron: the moments of a schedule in its zone, as seconds since the epoch (TMR-01).
# Around a change of the clocks it does what Debian's cron does: a time of day that is skipped comes right after the
# gap, one that there is twice comes once.
def times(cron: str, timezone: str, *, after: float, until: float = math.inf) -> Iterator[float]:
    """The moments later than `after`, up to `until`, in order. They may end by themselves: some never come, and there
    are none before 1970."""
    for moment in CronSim(cron, datetime.fromtimestamp(max(0, int(after)), ZoneInfo(timezone))):
        found = moment.timestamp()
        if found > until:
            return
        if found > after:
            yield found


def newest_time(cron: str, timezone: str, *, after: float, until: float) -> float | None:
    """The last moment up to `until` that is later than `after`, however many there are between them."""
    start = datetime.fromtimestamp(int(until) + 1, ZoneInfo(timezone))
    for moment in CronSim(cron, start, reverse=True):
        if moment.timestamp() <= until:
            return moment.timestamp() if moment.timestamp() > after else None
    return None


def as_written(moment: float, timezone: str) -> str:
    """A moment as the people of the zone write it, with its offset."""
    return datetime.fromtimestamp(moment, ZoneInfo(timezone)).isoformat()
