"""The application: every route behind the guard, every error in one shape, OpenAPI generated from the routes.

Middleware around every route logs and measures requests and answers HEAD. The turns of workers and the start of an
execution bypass the framework's router (`FastPath`).
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
from noetl.server.access.gate import PASSED, GateResult
from noetl.server.guarded_router import components, include, set_identity
from noetl.server.logs import log
from noetl.server.metrics import Meters
from noetl.server.problem_details import StreamEndedError, Unexpected
from noetl.server.problem_details import install as install_problems
from noetl.server.routes.executions import begin
from noetl.server.routes.orders import turn
from noetl.server.services import Services

# Logged at debug level only: probes and workers send these requests all the time.
_QUIET = frozenset({"/api/health/live", "/api/health/ready", "/metrics", "/api/orders/turn", "/api/orders/heartbeat"})
_NO_ROUTE = "none"
_NAMED = ("execution_id", "step_run_id", "task_id")  # path parameters that a log line has as fields
# Labels of a metric must be few, and a client may send any word as its method.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HeadAsGet:
    """Answers HEAD as GET without the body, for every route. A live stream ends after its headers."""

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
                # The first part of the body ends the answer; later parts are dropped.
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                if message.get("more_body"):
                    # A stream would go on forever without a reader. The gate treats this error as its end.
                    raise StreamEndedError

        await self._app({**scope, "method": "GET"}, receive, send_head)


class Observer:
    """Writes one log line and one measurement for each request, by route, without the content of the request."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app, self._meters = app, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # 500 until an answer begins: a request that fails before that counts as failed.
        began, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._record(scope, status, time.perf_counter() - began)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        # Use the template of the route, not the path: paths contain ids, and each would become a series of its own.
        template = str(getattr(route, "path", _NO_ROUTE))
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self._meters.requests.labels(method, template, str(status)).observe(seconds)
        level = log.debug if template in _QUIET and status < 400 else log.info
        # Cut the values: the caller chooses them.
        named = {key: value[:100] for key, value in scope.get("path_params", {}).items() if key in _NAMED}
        level("request", method=method, path=scope["path"][:300], status=status, ms=round(seconds * 1000, 1), **named)


class _Route(msgspec.Struct, frozen=True):
    """The part of a route that `Observer` reads."""

    path: str


class FastPath:
    """Calls the functions of some hot routes directly after the gate, past the framework's router and dependencies:
    these took a tenth of the server's time for a step, and for many small executions.

    The gate has found the route and authorized the caller, the guard checks once more, and errors are answered as for
    every route. Each of `endpoints` takes a request alone and returns a response."""

    def __init__(self, app: ASGIApp, endpoints: Collection[Any]) -> None:
        self._app, self._endpoints = app, frozenset(endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        passed = scope.get(PASSED)
        if not isinstance(passed, GateResult) or passed.route.endpoint not in self._endpoints:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["endpoint"] = _Route(passed.route.template), passed.route.endpoint
        response = await _response(Request(scope, receive), passed.route.endpoint)
        await response(scope, receive, send)


async def _response(request: Request, endpoint: Any) -> Response:
    """The response of the endpoint, or of the app's handler for its error; an error without a handler is raised."""
    try:
        # Sets `request.state.identity`, as the dependency of every route does.
        await set_identity(request)
        response: Response = await endpoint(request)
    # Any error: the framework is bypassed, so its error handlers are looked up here.
    except Exception as problem:
        handlers = request.app.exception_handlers
        handler = next((handlers[kind] for kind in type(problem).__mro__ if kind in handlers), None)
        if handler is None:
            raise
        response = await handler(request, problem)
    return response


# The order matters: the first matching route is used, so a narrow one comes before a wide one (`playbooks` before the
# paths of `catalog`), and the pages of the web UI, which match every address, come last.
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
    "notifications",
    "inspection",
    "projection",
    "streams",
    "results",
    "workers",
    "overview",
    "pages",
)


def build(services: Services) -> FastAPI:
    """The app over open services."""
    app = FastAPI(
        title="NoETL",
        version=own_version(),
        # The description is a route of this package, behind the guard like every other.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    install_problems(app)
    for name in ROUTES:
        # A module about two resources has a router for each: their routes have different tags in OpenAPI.
        routers = vars(import_module(f"noetl.server.routes.{name}")).values()
        for router in [candidate for candidate in routers if isinstance(candidate, APIRouter)]:
            include(app, router)
    # The order matters: each middleware wraps those that were added before it, so the last one is the outermost.
    app.add_middleware(FastPath, endpoints=[turn, begin])
    # Inside the gate, which audits its answers and adds security headers.
    app.add_middleware(Unexpected)
    install_access(app, services.access)
    app.add_middleware(HeadAsGet)
    # Once more outside, for errors of the gate itself.
    app.add_middleware(Unexpected)
    app.add_middleware(Observer, meters=services.listeners.meters)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Add the schemas of our Structs to the framework's OpenAPI document."""
    framework_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = framework_openapi()
            document.setdefault("components", {}).setdefault("schemas", {}).update(components())
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
