"""The route that says when a cron schedule would come, before anybody registers it."""

from __future__ import annotations

from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from fastapi import Query, Request, Response

from noetl.control.schedule.cron import as_written, times
from noetl.language.reading.trigger import cron_reason
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import services_of

router = GuardedRouter(tags=["schedules"])
_FIELDS = 5


class CronTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The coming times by the clock of the zone."""

    cron: str
    timezone: str
    next: list[str]


@router.get("/api/cron", **shows(CronTimes, summary="The coming times of a cron schedule"))
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
    if len(cron.split()) != _FIELDS:
        raise ProblemDetails(422, f'cron: "{cron}" is not five fields: minute, hour, day, month, weekday')
    try:
        coming = list(islice(times(cron, timezone, after=services_of(request).clock.now()), count))
    except CronSimError as problem:
        raise ProblemDetails(422, f'cron: "{cron}" is not a cron schedule: {cron_reason(str(problem))}') from None
    return Json(CronTimes(cron=cron, timezone=timezone, next=[as_written(one, timezone) for one in coming]))
