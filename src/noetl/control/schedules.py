"""Schedules: start playbooks when their time has come (TMR-01).

Any number of servers may do this on one store. The id of an execution follows from path and time, so of two servers
that start it one finds it there. A schedule moves on only after its executions are durable. `ScheduleStore` stores
schedules by the path of the playbook; of two concurrent changes of one schedule, the second reads it again.
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
from noetl.base.durations import seconds
from noetl.base.errors import NoetlError, NotFoundError, Outage, RefusedError, log_failure
from noetl.base.ids import derived
from noetl.events.executions import Starter
from noetl.events.triggers import Backfill, Missed, Overlap, Schedule
from noetl.net.net import Net, Trigger
from noetl.store.contract import ConflictError, Store
from noetl.store.installation import CatalogRow, KeyValue, KeyValues, each_key_value

SCHEDULE, BACKFILL = "schedule", "backfill"  # kinds on the key-value table
_TRIES = 10


class ScheduleStore:
    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values

    async def enter(self, net: Net, row: CatalogRow, *, at: float) -> Schedule | None:
        """Store the schedule of a version that was just registered. It replaces the one before; without a schedule the
        old one is deleted. Progress is kept, unless the times have changed."""
        for _ in range(_TRIES):
            thing = await self._key_values.get(SCHEDULE, net.path)
            before = schedule_of(thing) if thing is not None else None
            if net.trigger is None:
                if thing is None or await self._key_values.delete(SCHEDULE, net.path, version=thing.version):
                    return None
                continue
            entered = _schedule_entry(net.trigger, row, before, at)
            over = thing.version if thing is not None else 0
            if await self._key_values.put(SCHEDULE, net.path, _body(entered), over=over, at=at) is not None:
                return entered
        raise RefusedError(f'the schedule of "{net.path}" is being changed by others: try again')

    async def get(self, path: str) -> Schedule:
        return schedule_of(await self._stored_schedule(path))

    async def find(self, path: str) -> Schedule | None:
        thing = await self._key_values.get(SCHEDULE, path)
        return schedule_of(thing) if thing is not None else None

    async def schedules(self) -> list[Schedule]:
        return [schedule_of(thing) async for thing in each_key_value(self._key_values, SCHEDULE)]

    async def pause(self, path: str, *, at: float) -> Schedule:
        return await self._change(path, at, lambda schedule: msgspec.structs.replace(schedule, paused=True))

    async def resume(self, path: str, *, at: float) -> Schedule:
        """Continue from now: times that passed during the pause are skipped, and can be backfilled."""

        def resumed(schedule: Schedule) -> Schedule:
            if not schedule.paused:
                return schedule
            return msgspec.structs.replace(schedule, paused=False, kept=max(at, schedule.kept))

        return await self._change(path, at, resumed)

    async def backfills(self, path: str | None = None) -> list[Backfill]:
        found = [backfill_of(thing) async for thing in each_key_value(self._key_values, BACKFILL)]
        return [one for one in found if path in (None, one.path)]

    async def ask_for(self, backfill: Backfill, *, at: float) -> None:
        """Store a backfill; `Schedules` of a server starts its executions."""
        await self._key_values.put(BACKFILL, backfill.backfill_id, _body(backfill), over=0, at=at)

    async def replace(self, thing: KeyValue, new: Schedule | Backfill, *, at: float) -> bool:
        """False if another process has changed it since it was read."""
        return await self._key_values.put(thing.kind, thing.name, _body(new), over=thing.version, at=at) is not None

    async def remove(self, thing: KeyValue) -> None:
        await self._key_values.delete(thing.kind, thing.name, version=thing.version)

    async def _stored_schedule(self, path: str) -> KeyValue:
        thing = await self._key_values.get(SCHEDULE, path)
        if thing is None:
            raise NotFoundError(f'"{path}" has no schedule: register a playbook of this path that has a trigger')
        return thing

    async def _change(self, path: str, at: float, change: Callable[[Schedule], Schedule]) -> Schedule:
        for _ in range(_TRIES):
            thing = await self._stored_schedule(path)
            before = schedule_of(thing)
            after = change(before)
            if after == before or await self.replace(thing, after, at=at):
                return after
        raise RefusedError(f'the schedule of "{path}" is being changed by others: try again')


def schedule_of(thing: KeyValue) -> Schedule:
    return msgspec.json.decode(thing.body, type=Schedule)


def backfill_of(thing: KeyValue) -> Backfill:
    return msgspec.json.decode(thing.body, type=Backfill)


def _body(what: Schedule | Backfill) -> bytes:
    return msgspec.json.encode(what)


def _schedule_entry(trigger: Trigger, row: CatalogRow, before: Schedule | None, at: float) -> Schedule:
    options = trigger.options
    fields: dict[str, Any] = {
        "path": row.path,
        "version": row.version,
        "net_hash": row.net_hash,
        "cron": trigger.cron,
        "timezone": trigger.timezone,
        "missed": Missed(options.get("missed", Missed.LAST)),
        "overlap": Overlap(options.get("overlap", Overlap.ALLOW)),
        "jitter_s": seconds(options.get("jitter", 0)),
    }
    if before is None:
        return Schedule(**fields, paused=bool(options.get("paused")), kept=at)
    # New times begin now, so nothing was missed. With the same times, those missed during the registration are still
    # due.
    same = (before.cron, before.timezone) == (trigger.cron, trigger.timezone)
    return msgspec.structs.replace(before, **fields, kept=before.kept if same else max(at, before.kept))


POLL_S = 5.0  # other processes change schedules in the store without a wake-up to this one
ENDS_POLL_S = 1.0  # while a queued start or a backfill waits for an execution to end
GRACE_S = 60.0  # a start that is late by less than this was not missed
MOST_AT_ONCE = 100  # starts of one schedule in one turn
MOST_QUEUED = 1_000
MOST_COUNTED = 1_000  # times that one turn counts as missed: a schedule may have had a million

_log = logging.getLogger(__name__)


class ScheduledStarter(Protocol):
    """The component that starts executions: `Executions` of the control plane."""

    async def start(
        self, net: Net, *, execution_id: str, trace_id: str, payload: dict[str, Any], starter: Starter
    ) -> None: ...

    async def net(self, net_hash: str) -> Net: ...

    async def cancel(self, execution_id: str, reason: str) -> object: ...


def execution_id_of(path: str, moment: float) -> str:
    """The id of the execution of a playbook at one of its times. Every server derives the same."""
    # Whole seconds: cron has no finer times, and a float may differ in its last digit.
    return str(UUID(hex=derived("schedule", path, int(moment))))


class Schedules:
    def __init__(self, store: Store, starter: ScheduledStarter, clock: Clock) -> None:
        self._store, self._starter, self._clock = store, starter, clock
        self._schedule_store = ScheduleStore(store.key_values)

    async def serve(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Start what is due, turn after turn, until cancelled."""
        outage = Outage(_log, "schedules were not looked at", "schedules are looked at again")
        while True:
            try:
                wait_s = await self.turn()
                outage.worked()
            except NoetlError as problem:  # an unreachable store, for example: try again
                outage.failed(problem)
                wait_s = POLL_S
            await sleep(wait_s)

    async def turn(self) -> float:
        """Start what is due; returns the seconds until the next turn. A schedule that fails is logged and does not stop
        the others."""
        waits_s = [POLL_S]
        for kind, keep in ((SCHEDULE, self._keep), (BACKFILL, self._fill)):
            async for thing in each_key_value(self._store.key_values, kind):
                try:
                    waits_s.append(await keep(thing))
                except Exception as problem:  # any error: one broken record must not stop the others
                    log_failure(_log, problem, "%s %s was not kept", kind, thing.name)
        return max(0.0, min(waits_s))

    async def _keep(self, thing: KeyValue) -> float:
        before, now = schedule_of(thing), self._clock.now()
        if before.paused:
            return POLL_S
        # Queued times are older than those that are due now.
        after = await self._from_queue(before)
        to_start = due(before, now)
        for moment in to_start:
            after = await self._start_or_queue(after, moment)
        after = _without_missed(after, _missed_times(before, to_start, now))
        # Written after the starts: a crash in between starts them again, and finds them by their derived ids.
        if after != before:
            # If another process has changed it meanwhile, nothing is written, and the next turn finds the executions.
            await self._schedule_store.replace(thing, after, at=now)
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
        return msgspec.structs.replace(schedule, kept=moment, running=execution_id, running_for=moment)

    async def _from_queue(self, schedule: Schedule) -> Schedule:
        while schedule.queued and not await self._is_open(schedule.running):
            moment, *rest = schedule.queued
            await self._start(schedule, moment)
            running = execution_id_of(schedule.path, moment)
            schedule = msgspec.structs.replace(schedule, running=running, running_for=moment, queued=tuple(rest))
        return schedule

    async def _fill(self, thing: KeyValue) -> float:
        """Start what the limit of a backfill allows; a backfill that is complete is deleted."""
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
        """Begin the execution of a scheduled time; False if it exists already."""
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
                starter=Starter(kind="backfill" if isinstance(what, Backfill) else "schedule", planned_at=moment),
            )
        except ConflictError:
            return False  # another server has started it
        return True

    async def _is_open(self, execution_id: str | None, *, but: str | None = None) -> bool:
        if execution_id is None or execution_id == but:
            return False
        row = await self._store.execution(execution_id)
        return row is not None and row.finished_at is None


def due(schedule: Schedule, now: float) -> list[float]:
    """The times to start now, in order."""
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


def _missed_times(schedule: Schedule, to_start: list[float], now: float) -> list[float]:
    """The times that have passed and that nothing will be run for; of a great many, the first and the newest."""
    newest = _newest(schedule, now) if schedule.missed is not Missed.ALL else None
    if newest is None:
        return []
    span = {"after": schedule.kept, "until": newest - 1.0 if newest in to_start else newest}
    found = list(islice(times(schedule.cron, schedule.timezone, **span), MOST_COUNTED))
    latest = newest_time(schedule.cron, schedule.timezone, **span)
    return found if latest is None or found[-1] == latest else [*found, latest]


def _without_missed(schedule: Schedule, missed: list[float]) -> Schedule:
    """The progress after this turn. Missed times that are not made up for count as done."""
    if not missed:
        return schedule
    kept, number = max(schedule.kept, missed[-1]), schedule.missed_times + len(missed)
    return msgspec.structs.replace(schedule, kept=kept, missed_times=number, last_missed=missed[-1])


def _newest(schedule: Schedule, now: float) -> float | None:
    """The newest time that has come, including its jitter."""
    until = now
    while (found := newest_time(schedule.cron, schedule.timezone, after=schedule.kept, until=until)) is not None:
        if found + jitter(schedule, found) <= now:
            return found
        until = found - 1.0
    return None


def jitter(schedule: Schedule, moment: float) -> float:
    """The jitter of a scheduled time: different for each playbook, and the same on every server."""
    if not schedule.jitter_s:
        return 0.0
    # Derived instead of random: every server must compute the same moment.
    share: float = int(derived("jitter", schedule.path, int(moment))[:8], 16) / 0x1_0000_0000
    return share * schedule.jitter_s


# Cron: the moments of a schedule in its zone, as seconds since the epoch (TMR-01).
# Around a clock change it does what Debian's cron does: a skipped time of day comes right after the gap, a repeated one
# comes once.
def times(cron: str, timezone: str, *, after: float, until: float = math.inf) -> Iterator[float]:
    """The times later than `after`, up to `until`, in order. There may be none: some dates never come, and there are
    none before 1970."""
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
    """A time in the zone of the schedule, with its offset."""
    return datetime.fromtimestamp(moment, ZoneInfo(timezone)).isoformat()
