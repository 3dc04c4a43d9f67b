"""Schedules: playbooks that the clock starts, their coming times, pausing, and making up for missed times (TMR-01)."""

from __future__ import annotations

import time
from itertools import islice

from noetl.base.clock import Clock, moment, rfc3339
from noetl.base.errors import InvalidError
from noetl.base.ids import uuid7
from noetl.control.schedule.schedule_store import ScheduleStore
from noetl.control.schedule.schedules import as_written, execution_id_of, times
from noetl.events.triggers import Backfill, Schedule
from noetl.operations.api_shapes import Backfilled, BackfillView, ScheduleList, ScheduleView
from noetl.store.contract import Store

MOST_TIMES = 10_000  # of one backfill: each is looked up in the store before anything is started


class ScheduleOperations:
    """The schedules of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._kept = ScheduleStore(store.key_values)

    async def list(self) -> ScheduleList:
        return ScheduleList(
            schedules=[await self._view(one, 1) for one in await self._kept.schedules()],
            backfills=[
                BackfillView(
                    backfill_id=one.backfill_id,
                    path=one.path,
                    started=one.started,
                    known=one.known,
                    running=len(one.running),
                )
                for one in await self._kept.backfills()
            ],
        )

    async def get(self, path: str, count: int) -> ScheduleView:
        """NotFoundError for a path that has none."""
        return await self._view(await self._kept.get(path), count)

    async def pause(self, path: str) -> ScheduleView:
        return await self._view(await self._kept.pause(path, at=self._clock.now()), 5)

    async def resume(self, path: str) -> ScheduleView:
        return await self._view(await self._kept.resume(path, at=self._clock.now()), 5)

    async def backfill(self, path: str, since: str, until: str | None, *, limit: int, dry_run: bool) -> Backfilled:
        """Leave the times of a span, both ends included, to whoever keeps schedules; none that has run is run again.
        Times are RFC 3339 texts; InvalidError for a span that cannot be."""
        schedule, now = await self._kept.get(path), self._clock.now()
        first, last = moment(since, "since"), now if until is None else moment(until, "until")
        if limit < 1:
            raise InvalidError("limit: at least one at a time")
        if last < first:
            raise InvalidError("until: it is before since")
        # `times` gives those after a moment, and a backfill includes its first one.
        wanted = _new_backfill(schedule, uuid7(now), first - 1.0, min(last, now), limit)
        found = list(islice(times(wanted.cron, wanted.timezone, after=wanted.kept, until=wanted.until), MOST_TIMES + 1))
        if len(found) > MOST_TIMES:
            raise InvalidError(f"that is more than {MOST_TIMES:,} times: name a shorter span")
        fresh = [one for one in found if await self._store.execution(execution_id_of(path, one)) is None]
        is_asked = bool(fresh) and not dry_run
        if is_asked:
            await self._kept.ask_for(wanted, at=now)
        return Backfilled(
            backfill_id=wanted.backfill_id if is_asked else None,
            path=path,
            times=[as_written(one, schedule.timezone) for one in fresh],
            known=len(found) - len(fresh),
        )

    async def _view(self, one: Schedule, count: int) -> ScheduleView:
        after = max(self._clock.now(), one.kept)
        return ScheduleView(
            path=one.path,
            version=one.version,
            cron=one.cron,
            timezone=one.timezone,
            missed=one.missed.value,
            overlap=one.overlap.value,
            jitter_s=one.jitter_s,
            paused=one.paused,
            running=await self._running(one),
            queued=[rfc3339(at) for at in one.queued],
            skipped=one.skipped,
            next=[] if one.paused else coming_times(one.cron, one.timezone, count, after=after),
        )

    async def _running(self, one: Schedule) -> str | None:
        """The execution that the schedule started and that goes on. The schedule keeps the last one it started."""
        row = await self._store.execution(one.running) if one.running is not None else None
        return row.execution_id if row is not None and row.finished_at is None else None


def coming_times(cron: str, timezone: str, count: int, *, after: float | None = None) -> list[str]:
    """The next times of a cron expression, also those that a paused schedule would have."""
    coming = times(cron, timezone, after=time.time() if after is None else after)
    return [as_written(at, timezone) for at in islice(coming, count)]


def _new_backfill(schedule: Schedule, backfill_id: str, kept: float, until: float, limit: int) -> Backfill:
    return Backfill(
        backfill_id=backfill_id,
        path=schedule.path,
        net_hash=schedule.net_hash,
        cron=schedule.cron,
        timezone=schedule.timezone,
        kept=kept,
        until=until,
        limit=limit,
    )
