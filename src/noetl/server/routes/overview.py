"""Routes for a first look: what runs and how fast, who waits for what, and a demo where nothing has run yet."""

from __future__ import annotations

from importlib.resources import files
from statistics import median
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.operations.administration_shapes import LateExecution
from noetl.operations.api_shapes import ExecutionView, view_of
from noetl.operations.executions import is_done_again
from noetl.operations.net_cost import percentile
from noetl.server.execution_lists import StuckExecutions, execution_views, stuck_executions
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.playbook_texts import PlaybookText, check_text, playbook_problem
from noetl.server.services import Services, identity_of, services_of
from noetl.server.start_requests import Started, StartRequest, start
from noetl.server.workers import live_workers
from noetl.store.contract import ExecutionRow
from noetl.store.installation import CatalogRow

router = GuardedRouter(tags=["overview"])
_MINUTES = 60
_LOOKED_AT = 5_000  # executions of the last hour; past that the charts show the newest part of it
_PAGE = 500
_MOST_FAILURES = 8
_FAILED_LOOKED_AT = 50  # of each kind: some may have been done again
_SPANS = {"hour": (3_600, 24), "day": (86_400, 30)}  # how long, how many
_STATES = ("running", "paused", "completed", "failed", "cancelled")
Limit = Annotated[int, Query(ge=1, le=1000)]


class Minute(msgspec.Struct, kw_only=True):
    """What began and ended in a minute, an hour or a day; `p50_s` and `p95_s` are how long those that ended took."""

    at: str
    started: int = 0
    completed: int = 0
    failed: int = 0
    p50_s: float | None = None
    p95_s: float | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """`minutes` are the last sixty, the oldest first."""

    counts: dict[str, int]
    minutes: list[Minute]
    orders: dict[str, int]
    workers: int
    late: list[LateExecution] = []


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last day hour by hour, or of the last month day by day, the oldest first. `at` is where each begins.
    `failures` are the newest executions of which something is still to be done: failed ones of any time, and of this
    time those that completed although items of their loops failed; none that a rerun has done."""

    by: Literal["hour", "day"]
    spans: list[Minute]
    failures: list[ExecutionView] = []


class WaitView(msgspec.Struct, frozen=True, kw_only=True):
    wait_id: str
    execution_id: str
    kind: str
    name: str
    correlation: dict[str, Any]
    opened_at: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    waits: list[WaitView]


@router.get("/api/overview", **openapi_docs(Overview, summary="What goes on"))
async def overview(request: Request) -> Response:
    """Counts by status, the last hour minute by minute, orders that wait, workers that are here, what is late."""
    services = services_of(request)
    counts = dict.fromkeys(_STATES, 0) | await services.store.tally()
    now = services.clock.now()
    leased = sum((await services.store.leased(now=now)).values())
    drains = await services.control.pools.drains.all()
    ready = sum((await services.store.unclaimed(now=now)).values())
    answer = Overview(
        counts=counts,
        minutes=_by_span(await _recent(services), now, 60, _MINUTES),
        orders={"ready": ready, "leased": leased},
        # The roster remembers a worker for a day after its last word; only those that are there count.
        # Neither do those that are drained: they take none of the orders that wait.
        workers=sum(row.worker_id not in drains for row in await live_workers(services)),
        late=await services.notifications.late(services.store),
    )
    return Json(answer)


@router.get("/api/stuck", **openapi_docs(StuckExecutions, summary="What no worker takes"))
async def stuck(request: Request, execution_id: Annotated[str | None, Query(max_length=100)] = None) -> Response:
    """The executions whose orders no worker takes, and why; or one of them. `explain` also knows it of orders that no
    worker was offered yet."""
    return Json(await stuck_executions(services_of(request), execution_id))


@router.get("/api/trends", **openapi_docs(Trends, summary="What began and ended by hour or by day"))
async def trends(request: Request, by: Literal["hour", "day"] = "hour") -> Response:
    """Hours and days begin as they do in UTC."""
    services = services_of(request)
    span_s, count = _SPANS[by]
    rows = await _recent(services, span_s * count)
    spans = _by_span(rows, services.clock.now(), span_s, count)
    return Json(Trends(by=by, spans=spans, failures=await _failures(services, rows)))


async def _failures(services: Services, recent: list[ExecutionRow]) -> list[ExecutionView]:
    failed = await services.store.executions(limit=_FAILED_LOOKED_AT, status="failed")
    partial = [row for row in recent if row.status == "completed" and row.failed_iterations]
    newest = sorted([*failed, *partial[:_FAILED_LOOKED_AT]], key=lambda row: row.finished_at or 0.0, reverse=True)
    found: list[ExecutionView] = []
    for row in newest:
        if len(found) == _MOST_FAILURES:
            break
        if not await is_done_again(services.store, row.execution_id):
            found += await execution_views(services, [row])
    return found


async def _recent(services: Services, past_s: int = _MINUTES * 60) -> list[ExecutionRow]:
    rows: list[ExecutionRow] = []
    since = services.clock.now() - past_s
    # Bounded: on a busy server the newest that fit are shown, and the page stays quick.
    while len(rows) < _LOOKED_AT:
        beyond = rows[-1].execution_id if rows else None
        page = await services.store.executions(limit=_PAGE, beyond=beyond, since=since)
        rows += page
        if len(page) < _PAGE:
            break
    return rows


def _by_span(rows: list[ExecutionRow], now: float, span_s: int, count: int) -> list[Minute]:
    first = int(now // span_s) - count + 1
    # Every span has a row, also one in which nothing happened.
    minutes = [Minute(at=rfc3339(float((first + n) * span_s))) for n in range(count)]
    took: dict[int, list[float]] = {}
    for row in rows:
        if 0 <= (n := int(row.created_at // span_s) - first) < count:
            minutes[n].started += 1
        # Counted where it ended, which may be another span than that of its start.
        if row.finished_at is not None and 0 <= (n := int(row.finished_at // span_s) - first) < count:
            minutes[n].completed += row.status == "completed"
            # Cancelled ones are neither: a user wanted them to end.
            minutes[n].failed += row.status == "failed"
            took.setdefault(n, []).append(row.finished_at - row.created_at)
    for n, spans in took.items():
        spans.sort()
        minutes[n].p50_s, minutes[n].p95_s = median(spans), percentile(spans, 95)
    return minutes


@router.get("/api/waits", **openapi_docs(Waiting, summary="Who waits for messages and signals"))
async def waits(request: Request, limit: Limit = 200) -> Response:
    """The newest first."""
    rows = await services_of(request).store.waits.newest(limit=limit)
    views = [view_of(WaitView, row, correlation=msgspec.json.decode(row.correlation)) for row in rows]
    return Json(Waiting(waits=views))


@router.post("/api/demo", **openapi_docs(Started, status=201, summary="Run the demo"))
async def demo(request: Request) -> Response:
    """Register a small playbook that needs nothing but this server, and start it."""
    services = services_of(request)
    row = await _demo_row(services)
    asked = StartRequest(path=row.path, version=row.version)
    answer, _ = await start(services, asked, subject=str(identity_of(request).subject), key=None)
    return Response(answer, 201, media_type="application/json")


async def _demo_row(services: Services) -> CatalogRow:
    source = (files("noetl.server") / "pages" / "demo.yaml").read_text("utf-8")
    result = await check_text(PlaybookText(source=source), for_start=True)
    if result.net is None:
        raise playbook_problem(result)
    return await services.library.register(result.net, source=source)
