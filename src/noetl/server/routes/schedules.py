"""Routes of schedules: playbooks that the clock starts, their coming times, pausing and making up for missed ones."""

from __future__ import annotations

from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from fastapi import Query, Request, Response

from noetl.control.schedules import as_written, times
from noetl.language.reading.trigger import cron_reason
from noetl.operations.administration_shapes import Backfilled, ScheduleList, ScheduleView
from noetl.operations.cron_words import cron_words
from noetl.operations.schedules import ScheduleOperations
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import services_of

router = GuardedRouter(tags=["schedules"])
_FIELDS = 5


class CronTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The coming times by the clock of the zone, and the schedule in words."""

    cron: str
    words: str
    timezone: str
    next: list[str]


@router.get("/api/cron", **openapi_docs(CronTimes, summary="The coming times of a cron schedule"))
async def cron_times(
    request: Request,
    cron: Annotated[str, Query(max_length=200)],
    timezone: Annotated[str, Query(max_length=100)] = "UTC",
    count: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Response:
    from cronsim import CronSimError

    try:
        ZoneInfo(timezone)
    except (LookupError, ValueError, OSError):
        raise ProblemDetails(422, f'timezone: "{timezone}" is not a time zone; write one like Europe/Berlin') from None
    # The parser would take six, with seconds.
    if len(cron.split()) != _FIELDS:
        raise ProblemDetails(422, f'cron: "{cron}" is not five fields: minute, hour, day, month, weekday')
    try:
        coming = list(islice(times(cron, timezone, after=services_of(request).clock.now()), count))
    except CronSimError as problem:
        raise ProblemDetails(422, f'cron: "{cron}" is not a cron schedule: {cron_reason(str(problem), cron)}') from None
    return Json(
        CronTimes(
            cron=cron,
            words=cron_words(cron),
            timezone=timezone,
            next=[as_written(moment, timezone) for moment in coming],
        )
    )


class Backfilling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times from `since` to `until` (now without it), at most `limit` of them at once."""

    since: str
    until: str | None = None
    limit: int = 5
    dry_run: bool = False


def _schedules(request: Request) -> ScheduleOperations:
    services = services_of(request)
    return ScheduleOperations(services.store, services.clock)


@router.get("/api/schedules", **openapi_docs(ScheduleList, summary="List schedules"))
async def schedules(request: Request) -> Response:
    return Json(await _schedules(request).list())


@router.get("/api/schedules/{path:path}", **openapi_docs(ScheduleView, summary="One schedule with its coming times"))
async def schedule(request: Request, path: str, count: Annotated[int, Query(ge=1, le=1000)] = 5) -> Response:
    return Json(await _schedules(request).get(path, count))


@router.post("/api/schedules/{path:path}/pause", **openapi_docs(ScheduleView, summary="Pause a schedule"))
async def pause(request: Request, path: str) -> Response:
    """Nothing is started at its times until it is resumed."""
    return Json(await _schedules(request).pause(path))


@router.post("/api/schedules/{path:path}/resume", **openapi_docs(ScheduleView, summary="Resume a schedule"))
async def resume(request: Request, path: str) -> Response:
    """Times that have passed can be backfilled."""
    return Json(await _schedules(request).resume(path))


@router.post(
    "/api/schedules/{path:path}/backfill", **openapi_docs(Backfilled, reads=Backfilling, summary="Run missed times")
)
async def backfill(request: Request, path: str) -> Response:
    """What has run for a time is not run again."""
    asked = await read(request, Backfilling)
    result = await _schedules(request).backfill(
        path, asked.since, asked.until, limit=asked.limit, dry_run=asked.dry_run
    )
    return Json(result)
