"""A shortcut for what a worker asks at every step: from the gate straight to its function, past the framework's router
and its dependencies, which took a tenth of the server's time of a step.

The gate has found the route and let the caller pass, as ever, the guard looks once more, and errors are answered as
anywhere else: only the way in between is shorter. Which routes take it is written in the app.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from noetl.server.access.gate import PASSED, Passed
from noetl.server.guarded_router import guarded


class _Route(msgspec.Struct, frozen=True):
    """As much of a route as is asked for by whoever measures it."""

    path: str


class Shortcut:
    """Inside of the gate. `endpoints` take a request alone, and give a response."""

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
        await request.app.dependency_overrides.get(guarded, guarded)(request)  # what every route begins with
        response: Response = await endpoint(request)
    except Exception as problem:
        handlers = request.app.exception_handlers
        handler = next((handlers[kind] for kind in type(problem).__mro__ if kind in handlers), None)
        if handler is None:
            raise
        response = await handler(request, problem)
    return response
