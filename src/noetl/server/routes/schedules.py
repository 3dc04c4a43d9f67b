"""Routes of schedules: playbooks that the clock starts, their coming times, pausing and making up for missed ones."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from noetl.operations.api_shapes import Backfilled, ScheduleList, ScheduleView
from noetl.operations.schedules import ScheduleOperations
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.services import services_of

router = GuardedRouter(tags=["schedules"])


class Backfilling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times from `since` to `until` (now without it), at most `limit` of them at once."""

    since: str
    until: str | None = None
    limit: int = 5
    dry_run: bool = False


def _schedules(request: Request) -> ScheduleOperations:
    services = services_of(request)
    return ScheduleOperations(services.store, services.clock)


@router.get("/api/schedules", **shows(ScheduleList, summary="List schedules"))
async def schedules(request: Request) -> Response:
    return Json(await _schedules(request).list())


@router.get("/api/schedules/{path:path}", **shows(ScheduleView, summary="One schedule with its coming times"))
async def schedule(request: Request, path: str, count: Annotated[int, Query(ge=1, le=1000)] = 5) -> Response:
    return Json(await _schedules(request).get(path, count))


@router.post("/api/schedules/{path:path}/pause", **shows(ScheduleView, summary="Pause a schedule"))
async def pause(request: Request, path: str) -> Response:
    """Nothing is started at its times until it is resumed."""
    return Json(await _schedules(request).pause(path))


@router.post("/api/schedules/{path:path}/resume", **shows(ScheduleView, summary="Resume a schedule"))
async def resume(request: Request, path: str) -> Response:
    """Times that have passed can be backfilled."""
    return Json(await _schedules(request).resume(path))


@router.post("/api/schedules/{path:path}/backfill", **shows(Backfilled, reads=Backfilling, summary="Run missed times"))
async def backfill(request: Request, path: str) -> Response:
    """What has run for a time is not run again."""
    asked = await read(request, Backfilling)
    found = await _schedules(request).backfill(path, asked.since, asked.until, limit=asked.limit, dry_run=asked.dry_run)
    return Json(found)
