"""Routes for operators: health, readiness, metrics, and the API's own description as OpenAPI 3.1 (design.md §6)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from noetl.control.background.lost_work import INCIDENT
from noetl.control.commit.quarantine import Incident
from noetl.operations.api_shapes import view_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, services_of
from noetl.server.workers import crews_of, live_workers
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


@router.get("/api/health/live", **openapi_docs(Health, summary="The process lives"))
async def live() -> Response:
    return Json(Health())


@router.get("/api/health/ready", **openapi_docs(Health, summary="The server can serve"))
async def ready(request: Request) -> Response:
    """503 while the store cannot be read or written, or the server is about to stop."""
    services = services_of(request)
    # Asked first: a load balancer has to stop sending requests here before the server closes its store.
    if services.stopping:
        raise ProblemDetails(503, "the server is about to stop")
    if (problem := await services.readiness.problem()) is not None:
        raise ProblemDetails(503, problem)
    return Json(Health())


@router.get("/api/incidents", **openapi_docs(Incidents, summary="What an operator should look at"))
async def incidents(request: Request) -> Response:
    """Quarantined records: processing them fails again and again."""
    rows = await services_of(request).store.key_values.list(INCIDENT)
    stored = [msgspec.json.decode(row.body, type=Incident) for row in rows]
    return Json(Incidents(incidents=[view_of(IncidentView, incident) for incident in stored]))


@router.get("/metrics", **openapi_docs(media="text/plain", summary="Figures for Prometheus"))
async def metrics(request: Request) -> Response:
    services = services_of(request)
    await _update_store_metrics(services)
    return Response(services.listeners.meters.text(), media_type=CONTENT_TYPE_LATEST)


async def _update_store_metrics(services: Services) -> None:
    """Figures that are read from the store on request, and not counted continuously."""
    meters, store, now = services.listeners.meters, services.store, services.clock.now()
    # Zeros too: a series that is missing and one that is zero are different things to an alert.
    for status, number in (dict.fromkeys(STATES, 0) | await store.tally()).items():
        meters.stored_executions.labels(status).set(number)
    ready, leased = await store.unclaimed(now=now), await store.leased(now=now)
    meters.set_open_orders(ready=ready, leased=leased, served=await crews_of(services))
    for state, number in (dict.fromkeys(NoticeState, 0) | await store.notices.tally()).items():
        meters.notices.labels(str(state)).set(number)
    meters.incidents.set(len(await store.key_values.list(INCIDENT)))
    meters.workers.set(len(await live_workers(services)))


_OWN = ("script-src", "style-src", "connect-src")
_NONE = ("default-src", "base-uri", "frame-ancestors", "form-action")
_POLICY = "; ".join([*(f"{what} 'none'" for what in _NONE), *(f"{what} 'self'" for what in _OWN)])
_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "docs.css": "text/css; charset=utf-8",
}


@router.get("/openapi.json", **openapi_docs(dict[str, Any], summary="This description"))
async def openapi(request: Request) -> Response:
    # FastAPI builds the description once and keeps it.
    return Json(request.app.openapi())


@router.get("/openapi", **openapi_docs(media="text/html", summary="This description, to read"))
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
