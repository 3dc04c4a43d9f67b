"""Observing requests: one log line and one measurement each, by route, never by what was in them."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noetl.server.logs import log
from noetl.server.metrics import Meters

_QUIET = frozenset({"/api/health/live", "/api/health/ready", "/metrics", "/api/orders/turn", "/api/orders/heartbeat"})
_NO_ROUTE = "none"
_NAMED = ("execution_id", "step_run_id", "task_id")  # parts of a path that lines are looked for by
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Observer:
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
