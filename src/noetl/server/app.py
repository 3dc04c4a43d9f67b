"""The application: every route behind the guard, every error in one shape, OpenAPI made from what routes declare.

Middleware around every route logs and measures requests and answers HEAD. What a worker asks at every step, and the
start of an execution, take a shorter way.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from importlib import import_module
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noetl.base.distribution import own_version
from noetl.server.access.access import install as install_access
from noetl.server.access.gate import PASSED, Passed
from noetl.server.guarded_router import components, guarded, include
from noetl.server.logs import log
from noetl.server.metrics import Meters
from noetl.server.problem_details import StreamEndedError, Unexpected
from noetl.server.problem_details import install as install_problems
from noetl.server.routes.executions import begin
from noetl.server.routes.orders import turn
from noetl.server.services import Services

# Not logged one by one: probes and workers send them all the time.
_QUIET = frozenset({"/api/health/live", "/api/health/ready", "/metrics", "/api/orders/turn", "/api/orders/heartbeat"})
_NO_ROUTE = "none"
_NAMED = ("execution_id", "step_run_id", "task_id")  # parts of a path that lines are looked for by
# Labels of a metric must be few, and a client may send any word as its method.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HeadAsGet:
    """HEAD is answered as GET would be, without the body, so that each route that can be read can be asked about,
    whoever wrote it. A live stream ends with its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_over = False

        async def send_head(message: Message) -> None:
            nonlocal is_over
            if message["type"] == "http.response.start":
                await send(message)
            elif not is_over:
                is_over = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                if message.get("more_body"):
                    raise StreamEndedError

        await self._app({**scope, "method": "GET"}, receive, send_head)


class Observer:
    """One log line and one measurement for each request, by route, never by what was in it."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app, self._meters = app, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        template = str(getattr(route, "path", _NO_ROUTE))
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"  # anybody may send any word
        self._meters.requests.labels(method, template, str(status)).observe(seconds)
        level = log.debug if template in _QUIET and status < 400 else log.info
        named = {key: value[:100] for key, value in scope.get("path_params", {}).items() if key in _NAMED}
        level("request", method=method, path=scope["path"][:300], status=status, ms=round(seconds * 1000, 1), **named)


class _Route(msgspec.Struct, frozen=True):
    """As much of a route as is asked for by whoever measures it."""

    path: str


class Shortcut:
    """What a worker asks at every step, and what begins an execution, goes from the gate straight to its function, past
    the framework's router and its dependencies: they took a tenth of the server's time of a step, and of a crowd of
    small executions.

    The gate has found the route and let the caller pass, as ever, the guard looks once more, and errors are answered as
    anywhere else: only the way in between is shorter. `endpoints`, which the app names, take a request alone, and give
    a response."""

    def __init__(self, app: ASGIApp, endpoints: Collection[Any]) -> None:
        self._app, self._endpoints = app, frozenset(endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        passed = scope.get(PASSED)
        if not isinstance(passed, Passed) or passed.door.endpoint not in self._endpoints:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["endpoint"] = _Route(passed.door.template), passed.door.endpoint
        response = await _response(Request(scope, receive), passed.door.endpoint)
        await response(scope, receive, send)


async def _response(request: Request, endpoint: Any) -> Response:
    """The answer, or the app's own to what went wrong; what it does not know comes out."""
    try:
        await guarded(request)  # what every route begins with
        response: Response = await endpoint(request)
    # Broad: this way passes the framework by, so its handlers of errors are looked up here.
    except Exception as problem:
        handlers = request.app.exception_handlers
        handler = next((handlers[kind] for kind in type(problem).__mro__ if kind in handlers), None)
        if handler is None:
            raise
        response = await handler(request, problem)
    return response


# In this order: the first route that fits is taken, so a narrow one stands before a wide one (`playbooks` before the
# paths of `catalog`), and the pages of the web UI, which take every address, come last.
ROUTES = (
    "orders",
    "executions",
    "operation",
    "access",
    "triggers",
    "authoring",
    "attempts",
    "playbooks",
    "catalog",
    "waits",
    "limits",
    "schedules",
    "notifications",
    "inspection",
    "projection",
    "streams",
    "results",
    "tables",
    "workers",
    "overview",
    "pages",
)


def build(services: Services) -> FastAPI:
    """The app over open services."""
    app = FastAPI(
        title="NoETL",
        version=own_version(),
        openapi_url=None,  # it is a route of ours, behind the guard like every other
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    install_problems(app)
    for name in ROUTES:
        # A module about two resources has a router for each: their routes carry different tags in OpenAPI.
        routers = vars(import_module(f"noetl.server.routes.{name}")).values()
        for router in [one for one in routers if isinstance(one, APIRouter)]:
            include(app, router)
    app.add_middleware(Shortcut, endpoints=[turn, begin])
    app.add_middleware(Unexpected)  # inside of the gate, which writes its answers down and gives them their headers
    install_access(app, services.access)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Unexpected)  # and once more, should the gate itself break
    app.add_middleware(Observer, meters=services.listeners.meters)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Add the schemas of our Structs to what the framework knows."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = made()
            described.setdefault("components", {}).setdefault("schemas", {}).update(components())
            described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            described["security"] = [{"token": []}]
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
