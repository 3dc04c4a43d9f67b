"""Schedules: playbooks that start by time, their next times, pausing, and backfills of past times (TMR-01)."""

from __future__ import annotations

import time
from itertools import islice

from noetl.base.clock import Clock, moment, rfc3339
from noetl.base.errors import InvalidError
from noetl.base.ids import uuid7
from noetl.control.schedules import ScheduleStore, as_written, execution_id_of, times
from noetl.events.triggers import Backfill, Schedule
from noetl.operations.administration_shapes import Backfilled, BackfillView, ScheduledRun, ScheduleList, ScheduleView
from noetl.operations.api_shapes import view_of
from noetl.operations.cron_words import cron_words
from noetl.store.contract import ExecutionRow, Store

# Times of one backfill. Each of them is looked up in the store before anything starts.
MOST_TIMES = 10_000


class ScheduleOperations:
    """The schedules of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._schedules = ScheduleStore(store.key_values)

    async def list(self) -> ScheduleList:
        return ScheduleList(
            schedules=[await self._view(entry, 1) for entry in await self._schedules.schedules()],
            backfills=[
                view_of(BackfillView, entry, running=len(entry.running)) for entry in await self._schedules.backfills()
            ],
        )

    async def get(self, path: str, count: int) -> ScheduleView:
        """The schedule of a path with its next `count` times. NotFoundError for a path without a schedule."""
        return await self._view(await self._schedules.get(path), count)

    async def pause(self, path: str) -> ScheduleView:
        return await self._view(await self._schedules.pause(path, at=self._clock.now()), 5)

    async def resume(self, path: str) -> ScheduleView:
        return await self._view(await self._schedules.resume(path, at=self._clock.now()), 5)

    async def backfill(self, path: str, since: str, until: str | None, *, limit: int, dry_run: bool) -> Backfilled:
        """Request executions for the times from `since` to `until`, both included; times that have run are skipped.
        The process that runs schedules starts them. Times are RFC 3339 texts; InvalidError for an impossible span."""
        schedule, now = await self._schedules.get(path), self._clock.now()
        first, last = moment(since, "since"), now if until is None else moment(until, "until")
        if limit < 1:
            raise InvalidError("limit: at least one at a time")
        if last < first:
            raise InvalidError("until: it is before since")
        # `times` yields times after a moment; one second earlier includes the first time of the span.
        # The span ends now at the latest: the schedule itself runs future times, and they would run twice.
        backfill = _new_backfill(schedule, uuid7(now), first - 1.0, min(last, now), limit)
        moments = list(
            islice(times(backfill.cron, backfill.timezone, after=backfill.kept, until=backfill.until), MOST_TIMES + 1)
        )
        if len(moments) > MOST_TIMES:
            raise InvalidError(f"that is more than {MOST_TIMES:,} times: name a shorter span")
        new_moments = [
            moment_s for moment_s in moments if await self._store.execution(execution_id_of(path, moment_s)) is None
        ]
        is_requested = bool(new_moments) and not dry_run
        if is_requested:
            await self._schedules.ask_for(backfill, at=now)
        return Backfilled(
            backfill_id=backfill.backfill_id if is_requested else None,
            path=path,
            times=[as_written(moment_s, schedule.timezone) for moment_s in new_moments],
            known=len(moments) - len(new_moments),
        )

    async def _view(self, schedule: Schedule, count: int) -> ScheduleView:
        after = max(self._clock.now(), schedule.kept)
        last = await self._store.execution(schedule.running) if schedule.running is not None else None
        return ScheduleView(
            path=schedule.path,
            version=schedule.version,
            cron=schedule.cron,
            words=cron_words(schedule.cron),
            timezone=schedule.timezone,
            missed=schedule.missed.value,
            overlap=schedule.overlap.value,
            jitter_s=schedule.jitter_s,
            paused=schedule.paused,
            running=last.execution_id if last is not None and last.finished_at is None else None,
            last=_scheduled_run(schedule, last) if last is not None else None,
            missed_times=schedule.missed_times,
            last_missed=_written(schedule, schedule.last_missed),
            queued=[rfc3339(at) for at in schedule.queued],
            skipped=schedule.skipped,
            next=[] if schedule.paused else coming_times(schedule.cron, schedule.timezone, count, after=after),
        )


def _scheduled_run(schedule: Schedule, row: ExecutionRow) -> ScheduledRun:
    return ScheduledRun(
        execution_id=row.execution_id,
        time=_written(schedule, schedule.running_for),
        started_at=rfc3339(row.created_at),
        status=row.status,
    )


def _written(schedule: Schedule, moment_s: float | None) -> str | None:
    return as_written(moment_s, schedule.timezone) if moment_s is not None else None


def coming_times(cron: str, timezone: str, count: int, *, after: float | None = None) -> list[str]:
    """The next `count` times of a cron expression, whether or not a schedule is paused."""
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
