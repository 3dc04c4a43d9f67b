"""Requests of the API as values: how an answer is read, how long it may take, and when a request is retried. Also the
errors of the client, and the format of event streams.

Nothing here sends anything; both clients use these values.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import httpx2
import msgspec

from noetl.base.durations import retry_delay_s
from noetl.base.errors import BackendError, NotFoundError, RefusedError, SettledError
from noetl.base.redaction import without_password
from noetl.base.tls_trust import UNTRUSTED, is_distrust
from noetl.events.envelope import Event, decode_payload
from noetl.events.payloads import EventSource

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


class ApiError(RefusedError):
    """The server refused a request. `status` is the HTTP status, `problem` the answer, `diagnostics` those of a
    playbook with errors."""

    def __init__(self, message: str, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        diagnostics = self.problem.get("diagnostics")
        return diagnostics if isinstance(diagnostics, list) else []


class ApiNotFoundError(ApiError, NotFoundError):
    """404: there is no object with this name. A local store raises NotFoundError in the same case."""


class ApiSettledError(ApiError, SettledError):
    """409: the object has ended, has changed, or is not ready. A local store raises SettledError in the same case."""


class UnreachableError(BackendError):
    """No server answers at this address, or not in time."""


def error_of(response: httpx2.Response) -> ApiError:
    """The error of a response, with the message of the server if there is one."""
    try:
        problem = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    where, status = response.request.url, response.status_code
    detail = problem.get("detail") or problem.get("title") or response.reason_phrase
    match status:
        case 401:
            # The server gives no details without a valid token; the client knows whether it sent one.
            if "authorization" in response.request.headers:
                detail = "this server does not accept the token: it is unknown, expired or revoked"
            detail = f"{detail}: noetl login {where.scheme}://{where.netloc.decode()}, or set NOETL_TOKEN"
        # A NoETL server describes its errors. Without a description something else answers: a proxy, or another
        # program.
        case 404 if not problem:
            detail = f"there is no {where.path} at {where.netloc.decode()}: is this a NoETL server?"
    kinds: dict[int, type[ApiError]] = {404: ApiNotFoundError, 409: ApiSettledError}
    return kinds.get(status, ApiError)(str(detail), status, problem)


def unreachable(url: str, problem: Exception) -> UnreachableError:
    url = without_password(url)
    if is_distrust(problem):
        return UnreachableError(f"{url}: {UNTRUSTED}")
    why = _reason(problem) or _ERRNO.sub("", str(problem)) or type(problem).__name__
    return UnreachableError(f"{url} does not answer: {why}; is a server running there?")


def _reason(problem: BaseException | None) -> str | None:
    """The system error at the root of a chain of errors: "connection refused", not "all attempts failed"."""
    while problem is not None:
        # These have error numbers of their own, which `os.strerror` does not know.
        if isinstance(problem, ssl.SSLError | socket.gaierror) and problem.strerror:
            return problem.strerror
        if isinstance(problem, OSError) and problem.errno:
            return os.strerror(problem.errno)
        problem = problem.__cause__ or problem.__context__
    return None


T = TypeVar("T")
_JSON = "application/json"


class ApiRequest(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`read` converts the answer. `again`: the request is idempotent, so it may be sent twice."""

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    params: Mapping[str, Any] = {}
    content: bytes | None = None
    media_type: str = _JSON
    headers: Mapping[str, str] = {}
    # how long the server itself may wait before it answers; added to the timeout
    wait_s: float = 0.0
    again: bool = False


def read_as(kind: type[T]) -> Callable[[httpx2.Response], T]:
    return lambda response: msgspec.json.decode(response.content, type=kind)


def read_json(response: httpx2.Response) -> Any:
    return msgspec.json.decode(response.content) if response.content else None


def read_text(response: httpx2.Response) -> str:
    return response.text


def read_changed(response: httpx2.Response) -> bool:
    return bool(read_json(response)["changed"])


def read_deleted(response: httpx2.Response) -> int:
    return int(read_json(response)["deleted"])


def read_nothing(_: httpx2.Response) -> None:
    return None


def read_list(name: str, kind: type[T]) -> Callable[[httpx2.Response], list[T]]:
    """A reader for a list, which is the answer itself or its field `name`."""

    def read(response: httpx2.Response) -> list[T]:
        body = msgspec.json.decode(response.content)
        return msgspec.convert(body[name] if isinstance(body, dict) else body, list[kind])  # type: ignore[valid-type]

    return read


def set_params(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def get(path: str, read: Callable[[httpx2.Response], T], /, **params: Any) -> ApiRequest[T]:
    return ApiRequest(method="GET", path=path, read=read, params=set_params(**params), again=True)


def post(path: str, read: Callable[[httpx2.Response], T], body: Any = None, **more: Any) -> ApiRequest[T]:
    content = msgspec.json.encode(body) if body is not None else None
    return ApiRequest(method="POST", path=path, read=read, content=content, **more)


def read_count(response: httpx2.Response) -> int:
    return int(read_json(response)["count"])


# Tries of an idempotent request.
TRIES = 5
TIMEOUT_S = 30.0
# A server sends a comment every 15 s; after this time without one, the connection is lost.
STREAM_SILENCE_S = 60.0
# Temporary errors: of an overloaded server, or of a proxy whose server restarts.
_PASSING = (408, 429, 502, 503, 504)


def headers_for(token: str | None) -> dict[str, str]:
    headers = {"User-Agent": "noetl-client", "Accept": "application/json"}
    return headers if token is None else {**headers, "Authorization": f"Bearer {token}"}


def arguments(request: ApiRequest[Any]) -> dict[str, Any]:
    """A request as keyword arguments for httpx."""
    headers = dict(request.headers)
    if request.content is not None:
        headers["Content-Type"] = request.media_type
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.params) or None,
        "content": request.content,
        "headers": headers,
        # A server that was asked to wait answers late on purpose.
        "timeout": TIMEOUT_S + request.wait_s,
    }


def pause_before_next(request: ApiRequest[Any], tries: int, response: httpx2.Response | None) -> float | None:
    """The seconds to wait before the next try; None if the request must not be sent again."""
    if response is not None and response.status_code not in _PASSING:
        return None
    # The server answers 429 before it does anything, so any request may be sent again after it.
    is_safe = request.again or (response is not None and response.status_code == 429)
    if not is_safe or tries >= TRIES:
        return None
    return retry_delay_s(tries - 1, response.headers.get("Retry-After") if response is not None else None)


# The format of event streams (server-sent events): lines become messages, messages become events.


class StreamMessage(msgspec.Struct, frozen=True):
    """`name` is "message" unless the server sets another; send `at` as Last-Event-ID to resume after this message."""

    name: str
    data: str
    at: str | None


class Reader:
    """Collects lines, and yields a message when it is complete."""

    def __init__(self) -> None:
        self._name, self._data = "", list[str]()
        self._at: str | None = None

    def take(self, line: str) -> Iterator[StreamMessage]:
        if not line:
            # By the standard a blank line without data before it, as after a comment, is no message.
            if self._data:
                yield StreamMessage(self._name or "message", "\n".join(self._data), self._at)
            self._name, self._data = "", []
            return
        field, _, value = line.partition(":")
        # Only one blank belongs to the format; more of them are part of the value.
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._at = value


def event_of(fields: dict[str, Any]) -> Event:
    """The event with these fields of the API."""
    return Event(
        execution_id=fields["execution_id"],
        seq=fields["seq"],
        event_id=fields["event_id"],
        ts=seconds_of(fields["ts"]),
        source=EventSource(fields["source"]),
        payload=decode_payload(fields["event_type"], msgspec.json.encode(fields["payload"]), fields["schema"]),
        trace_id=fields["trace_id"],
        parent_id=fields["parent_id"],
        step=fields["step"],
        step_run_id=fields["step_run_id"],
        task_run_id=fields["task_run_id"],
        on_behalf=fields["on_behalf"],
        schema=fields["schema"],
    )


def seconds_of(moment: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.fromisoformat(moment).timestamp()
