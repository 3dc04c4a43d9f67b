"""Schedules: playbooks that the clock starts, their coming times, pausing and making up for missed ones (TMR-01)."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.base.errors import RefusedError
from noetl.base.ids import uuid7
from noetl.control.schedule.cron import as_written, times
from noetl.control.schedule.schedule_store import ScheduleStore
from noetl.control.schedule.schedules import execution_id_of
from noetl.events.schedules import Backfill, Schedule
from noetl.operations.api_shapes import Backfilled, BackfillView, ScheduleList, ScheduleView
from noetl.server.bodies import read
from noetl.server.execution_search import moment
from noetl.server.guarded_router import Json, shows
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import Services, services_of

router = APIRouter(tags=["schedules"])
MOST = 10_000  # times of one backfill


class Backfilling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times from `since` to `until` (now without it), at most `limit` of them at once."""

    since: str
    until: str | None = None
    limit: int = 5
    dry_run: bool = False


@router.get("/api/schedules", **shows(ScheduleList, summary="List schedules"))
async def schedules(request: Request) -> Response:
    services = services_of(request)
    schedule_store = ScheduleStore(services.store.key_values)
    found, backfills = await schedule_store.schedules(), await schedule_store.backfills()
    return Json(
        ScheduleList(
            schedules=[await _schedule_view(services, one, 1) for one in found],
            backfills=[
                BackfillView(
                    backfill_id=one.backfill_id,
                    path=one.path,
                    started=one.started,
                    known=one.known,
                    running=len(one.running),
                )
                for one in backfills
            ],
        )
    )


@router.get("/api/schedules/{path:path}", **shows(ScheduleView, summary="One schedule with its coming times"))
async def schedule(request: Request, path: str, count: Annotated[int, Query(ge=1, le=1000)] = 5) -> Response:
    services = services_of(request)
    return Json(await _schedule_view(services, await _schedule(services, path), count))


@router.post("/api/schedules/{path:path}/pause", **shows(ScheduleView, summary="Pause a schedule"))
async def pause(request: Request, path: str) -> Response:
    """Nothing is started at its times until it is resumed."""
    services = services_of(request)
    await _schedule(services, path)
    return Json(
        await _schedule_view(
            services, await ScheduleStore(services.store.key_values).pause(path, at=services.clock.now()), 5
        )
    )


@router.post("/api/schedules/{path:path}/resume", **shows(ScheduleView, summary="Resume a schedule"))
async def resume(request: Request, path: str) -> Response:
    """Times that have passed can be backfilled."""
    services = services_of(request)
    await _schedule(services, path)
    return Json(
        await _schedule_view(
            services, await ScheduleStore(services.store.key_values).resume(path, at=services.clock.now()), 5
        )
    )


@router.post("/api/schedules/{path:path}/backfill", **shows(Backfilled, reads=Backfilling, summary="Run missed times"))
async def backfill(request: Request, path: str) -> Response:
    """What has run for a time is not run again."""
    services, asked = services_of(request), await read(request, Backfilling)
    schedule, now = await _schedule(services, path), services.clock.now()
    since, until = moment(asked.since, "since"), moment(asked.until, "until")
    assert since is not None
    if asked.limit < 1:
        raise ProblemDetails(422, "limit: at least one at a time")
    if until is not None and until < since:
        raise ProblemDetails(422, "until: it is before since")
    until = min(until if until is not None else now, now)
    found = list(islice(times(schedule.cron, schedule.timezone, after=since - 1.0, until=until), MOST + 1))
    if len(found) > MOST:
        raise ProblemDetails(422, f"that is more than {MOST} times: name a shorter span")
    fresh = [one for one in found if await services.store.execution(execution_id_of(path, one)) is None]
    backfill_id = uuid7(now) if fresh and not asked.dry_run else None
    if backfill_id is not None:
        wanted = _new_backfill(schedule, backfill_id, since - 1.0, until, asked.limit)
        await ScheduleStore(services.store.key_values).ask_for(wanted, at=now)
    shown = [as_written(one, schedule.timezone) for one in fresh]
    return Json(Backfilled(backfill_id=backfill_id, path=path, times=shown, known=len(found) - len(fresh)))


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


async def _schedule(services: Services, path: str) -> Schedule:
    try:
        return await ScheduleStore(services.store.key_values).get(path)
    except RefusedError:
        raise unknown("schedule", path) from None


async def _running(services: Services, one: Schedule) -> str | None:
    """The execution that the schedule started and that goes on. The schedule itself keeps the last one it started."""
    row = await services.store.execution(one.running) if one.running is not None else None
    return row.execution_id if row is not None and row.finished_at is None else None


async def _schedule_view(services: Services, one: Schedule, count: int) -> ScheduleView:
    after = max(services.clock.now(), one.kept)
    coming = () if one.paused else islice(times(one.cron, one.timezone, after=after), count)
    return ScheduleView(
        path=one.path,
        version=one.version,
        cron=one.cron,
        timezone=one.timezone,
        missed=one.missed.value,
        overlap=one.overlap.value,
        jitter_s=one.jitter_s,
        paused=one.paused,
        running=await _running(services, one),
        queued=[rfc3339(at) for at in one.queued],
        skipped=one.skipped,
        next=[as_written(at, one.timezone) for at in coming],
    )
