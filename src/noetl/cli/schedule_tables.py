"""The schedules of a server or of a store file, told in the same words (those of the API)."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from noetl.cli.connection import Reached, server_answer
from noetl.cli.requests import using
from noetl.control.schedule.schedule_store import ScheduleStore
from noetl.operations.api_shapes import Backfilled, BackfillView, ScheduleList, ScheduleView

if TYPE_CHECKING:
    from noetl.events.schedules import Backfill as Wanted
    from noetl.events.schedules import Schedule as Kept
    from noetl.store.contract import Store

_MOST = 100_000  # times of one backfill


class Times:
    """What `noetl schedule` asks for; `there` is None for the store."""

    def __init__(self, there: Reached | None, db: str | None) -> None:
        self._there, self._db = there, db

    def all(self) -> ScheduleList:
        return (
            using(self._db, _listed) if self._there is None else server_answer(self._there, lambda it: it.schedules())
        )

    def of(self, path: str, count: int = 1) -> ScheduleView:
        """One schedule with its coming times; also those that a paused one would have."""
        if self._there is None:
            return using(self._db, lambda store: _of(store, path, count))
        told = server_answer(self._there, lambda it: it.schedule(path, count=count))
        return told if not told.paused else _with_times(told, time.time(), count)

    def pause(self, path: str) -> None:
        if self._there is None:
            using(self._db, lambda store: ScheduleStore(store.key_values).pause(path, at=time.time()))
        else:
            server_answer(self._there, lambda it: it.pause_schedule(path))

    def resume(self, path: str) -> None:
        if self._there is None:
            using(self._db, lambda store: ScheduleStore(store.key_values).resume(path, at=time.time()))
        else:
            server_answer(self._there, lambda it: it.resume_schedule(path))

    def backfill(self, path: str, since: float, until: float, *, limit: int, dry_run: bool) -> Backfilled:
        from noetl.base.clock import rfc3339

        if self._there is None:
            return using(self._db, lambda store: _backfilled(store, path, (since, until), limit, dry_run))
        span = (rfc3339(since), rfc3339(until))
        return server_answer(self._there, lambda it: it.backfill(path, *span, limit=limit, dry_run=dry_run))


async def _listed(store: Store) -> ScheduleList:
    schedule_store = ScheduleStore(store.key_values)
    backfills = [
        BackfillView(
            backfill_id=one.backfill_id, path=one.path, started=one.started, known=one.known, running=len(one.running)
        )
        for one in await schedule_store.backfills()
    ]
    return ScheduleList(
        schedules=[_schedule_info(one, 1) for one in await schedule_store.schedules()], backfills=backfills
    )


async def _of(store: Store, path: str, count: int) -> ScheduleView:
    kept = await ScheduleStore(store.key_values).get(path)
    told = _schedule_info(kept, count)
    return told if not told.paused else _with_times(told, kept.kept, count)


def _schedule_info(kept: Kept, count: int) -> ScheduleView:
    from noetl.base.clock import rfc3339

    told = ScheduleView(
        path=kept.path,
        version=kept.version,
        cron=kept.cron,
        timezone=kept.timezone,
        missed=kept.missed.value,
        overlap=kept.overlap.value,
        jitter_s=kept.jitter_s,
        paused=kept.paused,
        running=kept.running,
        queued=[rfc3339(at) for at in kept.queued],
        skipped=kept.skipped,
        next=[],
    )
    return told if kept.paused else _with_times(told, kept.kept, count)


def _with_times(told: ScheduleView, after: float, count: int) -> ScheduleView:
    import msgspec

    from noetl.control.schedule.cron import as_written, times

    coming = islice(times(told.cron, told.timezone, after=max(time.time(), after)), count)
    return msgspec.structs.replace(told, next=[as_written(moment, told.timezone) for moment in coming])


async def _backfilled(store: Store, path: str, span: tuple[float, float], limit: int, dry_run: bool) -> Backfilled:
    from noetl.base.errors import RefusedError
    from noetl.control.schedule.cron import as_written, times
    from noetl.control.schedule.schedules import execution_id_of

    schedule_store, now = ScheduleStore(store.key_values), time.time()
    if span[1] < span[0]:
        raise RefusedError("--to is before --from")
    wanted = _new_backfill(await schedule_store.get(path), span[0] - 1.0, min(span[1], now), limit)
    found = list(islice(times(wanted.cron, wanted.timezone, after=wanted.kept, until=wanted.until), _MOST + 1))
    if len(found) > _MOST:
        raise RefusedError(f"that is more than {_MOST:,} times: name a shorter span with --from and --to")
    fresh = [one for one in found if await store.execution(execution_id_of(path, one)) is None]
    is_asked = bool(fresh) and not dry_run
    if is_asked:
        await schedule_store.ask_for(wanted, at=now)
    return Backfilled(
        backfill_id=wanted.backfill_id if is_asked else None,
        path=path,
        times=[as_written(one, wanted.timezone) for one in fresh],
        known=len(found) - len(fresh),
    )


def _new_backfill(kept: Kept, after: float, until: float, limit: int) -> Wanted:
    from noetl.base.ids import uuid7
    from noetl.events.schedules import Backfill as Wanted

    return Wanted(
        backfill_id=uuid7(time.time()),
        path=kept.path,
        net_hash=kept.net_hash,
        cron=kept.cron,
        timezone=kept.timezone,
        kept=after,
        until=until,
        limit=limit,
    )
