"""Problem details: every error of the API in one shape, application/problem+json (RFC 9457), without internal details.
An unexpected error is reported only as a reference, under which the log has it.
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
    ReplacedError,
    SettledError,
    StoreOutageError,
    TemplateError,
    ToolError,
    UnfitError,
    UnreadableError,
)
from noetl.operations.catalog import catalog_id
from noetl.server.logs import log

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
CLIENT_LEFT = 499  # not an HTTP status; servers log it for a client that disconnected before the answer

_KINDS: dict[type[NoetlError], tuple[int, str]] = {
    NotFoundError: (404, "not-found"),
    ForbiddenError: (403, "forbidden"),
    SettledError: (409, "settled"),
    ReplacedError: (409, "replaced"),
    NotEndedError: (409, "not-ended"),
    InvalidError: (422, "invalid"),
    RefusedError: (409, "refused"),
    PlaybookError: (422, "playbook"),
    TemplateError: (422, "template"),
    ToolError: (422, "tool"),
    BackendError: (503, "backend"),
}


class ProblemDetails(Exception):  # noqa: N818  it is an answer to a client, and often not an error
    """Ends a request with `status`. `more` are further members of the answer."""

    def __init__(
        self, status: int, detail: str, *, kind: str = "", headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind = status, detail, kind
        self.headers, self.more = dict(headers or {}), more


class StreamEndedError(Exception):
    """Ends a stream early without an error, for example because the reader's token was revoked. The gate handles it."""


class ProblemShape(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error of the API. `diagnostics` are those of a playbook, `errors` the wrong fields of a request, `error` the
    error of a tool, `reference` the text to search in the server's log. `migration` is the outcome that a migration of
    a refused playbook would have, `blocked` lists its places that need a person. `newest` is the id of the version that
    a registration would replace, `removed` what of it the new text no longer has."""

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
    newest: str | None = None
    removed: dict[str, str] = {}


def response_to(request: Request, problem: ProblemDetails) -> Response:
    """The problem as the response to `request`."""
    return problem_response(problem, request.url.path)


def problem_response(problem: ProblemDetails, instance: str) -> Response:
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


def not_found(what: str, name: str) -> ProblemDetails:
    """404 for an unknown name."""
    return ProblemDetails(404, f'there is no {what} "{clipped(name)}" here')


def clipped(text: str, length: int = 200) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def too_busy(detail: str, retry_after_s: int = RETRY_AFTER_S) -> ProblemDetails:
    return ProblemDetails(429, detail, headers={"retry-after": str(retry_after_s)})


def problem_of(error: NoetlError) -> ProblemDetails:
    """The problem for one of our own errors, where no route has a better one."""
    status, kind = next(
        # The first match: subclasses come before their base classes in `_KINDS`.
        (entry for known, entry in _KINDS.items() if isinstance(error, known)),
        (500, "internal-server-error"),
    )
    if isinstance(error, UnfitError):
        return ProblemDetails(
            422, "a text has a character that cannot be stored: a NUL, or half of a surrogate pair", kind="text"
        )
    if isinstance(error, UnreadableError):
        return ProblemDetails(500, f"{error}; see noetl db check", kind="unreadable")
    if isinstance(error, BackendError):
        # The connections of the store have logged an outage already.
        if not isinstance(error, StoreOutageError):
            log.warning("backend", problem=str(error))
        retry = {"retry-after": str(RETRY_AFTER_S)}
        # Without the text of the error: it may name hosts and tables.
        return ProblemDetails(503, "the store cannot answer now; nothing was changed", kind=kind, headers=retry)
    if isinstance(error, ToolError):
        tool_error = {
            "kind": error.kind,
            "message": error.message,
            "retryable": error.retryable,
            "details": error.details,
        }
        return ProblemDetails(status, error.message, kind=kind, error=tool_error)
    if isinstance(error, ReplacedError):
        return ProblemDetails(
            status, str(error), kind=kind, newest=catalog_id(error.path, error.version), removed=error.removed
        )
    if isinstance(error, InvalidError):
        return ProblemDetails(status, str(error), kind=kind, errors=[dict(problem) for problem in error.problems])
    return ProblemDetails(status, str(error), kind=kind)


def install(app: FastAPI) -> None:
    """Answer every error of `app` in this shape."""

    async def on_problem(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, ProblemDetails)
        return response_to(request, problem)

    async def on_http(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        return response_to(request, ProblemDetails(problem.status_code, str(problem.detail), headers=problem.headers))

    async def on_parameters(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        errors = [{"place": ".".join(map(str, one["loc"])), "message": str(one["msg"])} for one in problem.errors()]
        places = ", ".join(dict.fromkeys(one["place"] for one in errors))
        return response_to(
            request, ProblemDetails(422, f"invalid parameters: {places}", kind="parameters", errors=errors)
        )

    async def on_overflow(request: Request, problem: Exception) -> Response:
        """Bodies of workers bypass the strict reader, so a number may be too large for the store."""
        return response_to(request, ProblemDetails(422, "a number is beyond what can be stored", kind="body"))

    async def on_leaving(request: Request, problem: Exception) -> Response:
        """The client disconnected before its request was complete. Only log and metrics see this answer."""
        return Response(status_code=CLIENT_LEFT)

    async def on_own(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, NoetlError)
        return response_to(request, problem_of(problem))

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
    """Middleware that logs unexpected errors with their traceback and answers with a reference only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except StreamEndedError:
            raise
        # Any error: the client gets a reference and no traceback, the log gets both.
        except Exception as error:
            reference = token_hex(8)
            log.error(
                "unexpected", reference=reference, path=scope["path"], problem=type(error).__name__, exc_info=error
            )
            if begun:
                # An answer that has begun cannot be replaced; closing the connection shows the client that it is cut.
                raise
            detail = f"unexpected error; search the server's log for {reference}"
            await problem_response(ProblemDetails(500, detail, reference=reference), scope["path"])(
                scope, receive, send
            )
