"""Routes for operators: health, readiness, metrics, and the API's own description as OpenAPI 3.1 (design.md §6)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from noetl.base.clock import rfc3339
from noetl.control.background.lost_work import INCIDENT
from noetl.control.commit.quarantine import Incident
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, services_of
from noetl.server.workers import LIVE_S
from noetl.store.notices import NoticeState

router = GuardedRouter(tags=["operation"])
STATES = ("running", "paused", "completed", "failed", "cancelled")


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok"] = "ok"


class IncidentView(msgspec.Struct, frozen=True, kw_only=True):
    """`record` names what is broken; `failures` counts how often it was tried."""

    record: str
    problem: str
    failures: int
    since: str
    last: str


class Incidents(msgspec.Struct, frozen=True, kw_only=True):
    incidents: list[IncidentView]


@router.get("/api/health/live", **shows(Health, summary="The process lives"))
async def live() -> Response:
    return Json(Health())


@router.get("/api/health/ready", **shows(Health, summary="The server can serve"))
async def ready(request: Request) -> Response:
    """503 while the store cannot be read or written, or the server is about to stop."""
    services = services_of(request)
    if services.stopping:
        raise ProblemDetails(503, "the server is about to stop")
    if (problem := await services.readiness.problem()) is not None:
        raise ProblemDetails(503, problem)
    return Json(Health())


@router.get("/api/incidents", **shows(Incidents, summary="What an operator should look at"))
async def incidents(request: Request) -> Response:
    """Quarantined records: processing them fails again and again."""
    things = await services_of(request).store.key_values.list(INCIDENT)
    return Json(Incidents(incidents=[_incident(thing.body) for thing in things]))


def _incident(body: bytes) -> IncidentView:
    one = msgspec.json.decode(body, type=Incident)
    return IncidentView(
        record=one.record, problem=one.problem, failures=one.failures, since=rfc3339(one.since), last=rfc3339(one.last)
    )


@router.get("/metrics", **shows(media="text/plain", summary="Figures for Prometheus"))
async def metrics(request: Request) -> Response:
    services = services_of(request)
    await _looked_up(services)
    return Response(services.listeners.meters.text(), media_type=CONTENT_TYPE_LATEST)


async def _looked_up(services: Services) -> None:
    """Figures that are read from the store when somebody asks, and not counted on the way."""
    meters, store, now = services.listeners.meters, services.store, services.clock.now()
    for status, number in (dict.fromkeys(STATES, 0) | await store.tally()).items():
        meters.kept.labels(status).set(number)
    meters.saw_orders(ready=await store.unclaimed(now=now), leased=await store.leased(now=now))
    for state, number in (dict.fromkeys(NoticeState, 0) | await store.notices.tally()).items():
        meters.notices.labels(str(state)).set(number)
    rows = await services.roster.list()
    meters.incidents.set(len(await store.key_values.list(INCIDENT)))
    meters.workers.set(sum(now - row.last_seen < LIVE_S for row in rows))


_OWN = ("script-src", "style-src", "connect-src")
_NONE = ("default-src", "base-uri", "frame-ancestors", "form-action")
_POLICY = "; ".join([*(f"{what} 'none'" for what in _NONE), *(f"{what} 'self'" for what in _OWN)])
_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "docs.css": "text/css; charset=utf-8",
}


@router.get("/openapi.json", **shows(dict[str, Any], summary="This description"))
async def openapi(request: Request) -> Response:
    return Json(request.app.openapi())


@router.get("/openapi", **shows(media="text/html", summary="This description, to read"))
async def page() -> Response:
    return _file("index.html")


@router.get("/openapi/docs.js", include_in_schema=False)
async def script() -> Response:
    return _file("docs.js")


@router.get("/openapi/docs.css", include_in_schema=False)
async def style() -> Response:
    return _file("docs.css")


def _file(name: str) -> Response:
    headers = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff"}
    return Response(_text(name), headers=headers, media_type=_KINDS[name])


@cache
def _text(name: str) -> str:
    return (files("noetl.server") / "pages" / name).read_text("utf-8")
