"""Middleware around every route: requests are logged and measured, HEAD is answered, and what a worker asks at every
step takes a shorter way.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noetl.server.access.gate import PASSED, Passed
from noetl.server.guarded_router import guarded
from noetl.server.logs import log
from noetl.server.metrics import Meters
from noetl.server.problem_details import StreamEndedError

_QUIET = frozenset({"/api/health/live", "/api/health/ready", "/metrics", "/api/orders/turn", "/api/orders/heartbeat"})
_NO_ROUTE = "none"
_NAMED = ("execution_id", "step_run_id", "task_id")  # parts of a path that lines are looked for by
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
    """What a worker asks at every step goes from the gate straight to its function, past the framework's router and its
    dependencies, which took a tenth of the server's time of a step.

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
    except Exception as problem:
        handlers = request.app.exception_handlers
        handler = next((handlers[kind] for kind in type(problem).__mro__ if kind in handlers), None)
        if handler is None:
            raise
        response = await handler(request, problem)
    return response
