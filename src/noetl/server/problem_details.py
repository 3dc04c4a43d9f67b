"""Problems: every error of the API in one shape, application/problem+json (RFC 9457), and never more than its reader
may know. What was not expected is told by a reference that also stands in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from secrets import token_hex
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noetl.base.errors import (
    BackendError,
    ForbiddenError,
    InvalidError,
    NoetlError,
    NotEndedError,
    NotFoundError,
    PlaybookError,
    RefusedError,
    SettledError,
    StoreOutageError,
    TemplateError,
    ToolError,
    UnfitError,
    UnreadableError,
)
from noetl.server.logs import log

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
CLIENT_LEFT = 499  # no status of HTTP, but what servers note for a request whose sender did not wait

_KINDS: dict[type[NoetlError], tuple[int, str]] = {
    NotFoundError: (404, "not-found"),
    ForbiddenError: (403, "forbidden"),
    SettledError: (409, "settled"),
    NotEndedError: (409, "not-ended"),
    InvalidError: (422, "invalid"),
    RefusedError: (409, "refused"),
    PlaybookError: (422, "playbook"),
    TemplateError: (422, "template"),
    ToolError: (422, "tool"),
    BackendError: (503, "backend"),
}


class ProblemDetails(Exception):  # noqa: N818  it is what a client reads, and often nobody's error
    """Ends a request with `status`. `more` are further members of the answer."""

    def __init__(
        self, status: int, detail: str, *, kind: str = "", headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind = status, detail, kind
        self.headers, self.more = dict(headers or {}), more


class StreamEndedError(Exception):
    """Who reads a stream may not any more: whoever opened the door for it ends it, and nothing is wrong."""


class ProblemShape(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error as a client reads it. `diagnostics` are those of a playbook, `errors` what is wrong with a request,
    `error` what a tool would end with, `reference` what to look for in the server's log. `migration` says what a
    migration of a refused playbook would come to, `blocked` which of its places need a person."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    diagnostics: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    error: dict[str, Any] | None = None
    reference: str | None = None
    migration: str | None = None
    blocked: list[dict[str, Any]] = []


def answer(request: Request, problem: ProblemDetails) -> Response:
    """The problem as the response to `request`."""
    return written(problem, request.url.path)


def written(problem: ProblemDetails, instance: str) -> Response:
    phrase = HTTPStatus(problem.status).phrase
    slug = problem.kind or phrase.lower().replace(" ", "-")
    shape = ProblemShape(
        type=f"urn:noetl:problem:{slug}",
        title=phrase,
        status=problem.status,
        detail=problem.detail,
        instance=instance,
        **problem.more,
    )
    headers = {"cache-control": "no-store", **problem.headers}
    return Response(msgspec.json.encode(shape), problem.status, headers, MEDIA_TYPE)


def unknown(what: str, name: str) -> ProblemDetails:
    """404 for something that was looked for by name."""
    return ProblemDetails(404, f'there is no {what} "{clipped(name)}" here')


def clipped(text: str, length: int = 200) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def too_busy(detail: str, retry_after_s: int = RETRY_AFTER_S) -> ProblemDetails:
    return ProblemDetails(429, detail, headers={"retry-after": str(retry_after_s)})


def of_error(error: NoetlError) -> ProblemDetails:
    """What one of our own errors is to a client, where no route says it better."""
    status, kind = next(
        (found for known, found in _KINDS.items() if isinstance(error, known)), (500, "internal-server-error")
    )
    if isinstance(error, UnfitError):
        return ProblemDetails(
            422, "a text in it holds a character that the store cannot: a NUL, or half of one", kind="text"
        )
    if isinstance(error, UnreadableError):
        return ProblemDetails(500, f"{error}; see noetl db check", kind="unreadable")
    if isinstance(error, BackendError):
        if not isinstance(error, StoreOutageError):  # whose connections have told it already
            log.warning("backend", problem=str(error))
        retry = {"retry-after": str(RETRY_AFTER_S)}
        return ProblemDetails(503, "the store cannot answer now; nothing was changed", kind=kind, headers=retry)
    if isinstance(error, ToolError):
        told = {"kind": error.kind, "message": error.message, "retryable": error.retryable, "details": error.details}
        return ProblemDetails(status, error.message, kind=kind, error=told)
    if isinstance(error, InvalidError):
        return ProblemDetails(status, str(error), kind=kind, errors=[dict(one) for one in error.problems])
    return ProblemDetails(status, str(error), kind=kind)


def install(app: FastAPI) -> None:
    """Have every error of `app` answered in this shape."""

    async def on_problem(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, ProblemDetails)
        return answer(request, problem)

    async def on_http(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        return answer(request, ProblemDetails(problem.status_code, str(problem.detail), headers=problem.headers))

    async def on_parameters(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        errors = [{"place": ".".join(map(str, one["loc"])), "message": str(one["msg"])} for one in problem.errors()]
        places = ", ".join(dict.fromkeys(one["place"] for one in errors))
        return answer(request, ProblemDetails(422, f"not as it should be: {places}", kind="parameters", errors=errors))

    async def on_overflow(request: Request, problem: Exception) -> Response:
        """A worker's body is read past the strict reader; what it says cannot be stored."""
        return answer(request, ProblemDetails(422, "a number is beyond what can be stored", kind="body"))

    async def on_leaving(request: Request, problem: Exception) -> Response:
        """Whoever asked has gone before we had heard all of it: nobody hears the answer, and nothing is wrong here."""
        return Response(status_code=CLIENT_LEFT)

    async def on_own(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, NoetlError)
        return answer(request, of_error(problem))

    handlers: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
        ProblemDetails: on_problem,
        HTTPException: on_http,
        RequestValidationError: on_parameters,
        OverflowError: on_overflow,
        ClientDisconnect: on_leaving,
        NoetlError: on_own,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


class Unexpected:
    """Outermost but for the framework's own: what nobody expected is logged whole and told as a reference only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except StreamEndedError:
            raise
        # Broad: whatever it is, the client gets a reference and no traceback, and the log gets both.
        except Exception as error:
            reference = token_hex(8)
            log.error(
                "unexpected", reference=reference, path=scope["path"], problem=type(error).__name__, exc_info=error
            )
            if begun:
                raise  # half an answer cannot be taken back: the connection is cut
            detail = f"something went wrong here; the server's log has it under {reference}"
            await written(ProblemDetails(500, detail, reference=reference), scope["path"])(scope, receive, send)
