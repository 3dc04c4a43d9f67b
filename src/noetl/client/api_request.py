"""One request of the API as a value: how its answer is read, how long it may take, when it is sent again, and what can
go wrong: the server refuses, or does not answer. Also event streams as they come over the wire.

Nothing here sends anything; both clients do it alike.
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

from noetl.base.errors import BackendError, NotFoundError, RefusedError, SettledError
from noetl.base.tls_trust import UNTRUSTED, is_distrust
from noetl.events.encoding import decode_payload
from noetl.events.envelope import Event
from noetl.events.payloads import EventSource
from noetl.worker.backoff import delay_s

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


class ApiError(RefusedError):
    """The server has understood and will not. `status` is HTTP's; `problem` what it answered; `diagnostics` those of
    a playbook with errors."""

    def __init__(self, message: str, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        found = self.problem.get("diagnostics")
        return found if isinstance(found, list) else []


class ApiNotFoundError(ApiError, NotFoundError):
    """404: what is named is not there, as a store of this machine says it."""


class ApiSettledError(ApiError, SettledError):
    """409: it is over, has changed, or is not for now, as a store of this machine says it."""


class UnreachableError(BackendError):
    """Nobody answers at this address, or not in time."""


def error_of(response: httpx2.Response) -> ApiError:
    """A response that is an error, in the server's own words where it has some."""
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
            if "authorization" in response.request.headers:
                detail = "this server does not know the token it was shown, or it has ended"
            detail = f"{detail}: noetl login {where.scheme}://{where.netloc.decode()}, or set NOETL_TOKEN"
        case 404 if not problem:
            detail = f"there is no {where.path} at {where.netloc.decode()}: is this a NoETL server?"
    kinds: dict[int, type[ApiError]] = {404: ApiNotFoundError, 409: ApiSettledError}
    return kinds.get(status, ApiError)(str(detail), status, problem)


def unreachable(url: str, problem: Exception) -> UnreachableError:
    if is_distrust(problem):
        return UnreachableError(f"{url}: {UNTRUSTED}")
    why = _reason(problem) or _ERRNO.sub("", str(problem)) or type(problem).__name__
    return UnreachableError(f"{url} does not answer: {why}; is a server running there?")


def _reason(problem: BaseException | None) -> str | None:
    """What the system said, below those who pass it on: "connection refused", not "all attempts failed"."""
    while problem is not None:
        if isinstance(problem, ssl.SSLError | socket.gaierror) and problem.strerror:  # with numbers of their own
            return problem.strerror
        if isinstance(problem, OSError) and problem.errno:
            return os.strerror(problem.errno)
        problem = problem.__cause__ or problem.__context__
    return None


T = TypeVar("T")
_JSON = "application/json"


class ApiRequest(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`read` makes its value of the answer. `again`: it may be sent twice and means the same."""

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    params: Mapping[str, Any] = {}
    content: bytes | None = None
    media_type: str = _JSON
    headers: Mapping[str, str] = {}
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
    """A list, given as such or under its name."""

    def read(response: httpx2.Response) -> list[T]:
        told = msgspec.json.decode(response.content)
        return msgspec.convert(told[name] if isinstance(told, dict) else told, list[kind])  # type: ignore[valid-type]

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


TRIES = 5  # of a request that may be sent twice
TIMEOUT_S = 30.0
STREAM_SILENCE_S = 60.0  # a server comments every 15 s; past this it is gone
_PASSING = (408, 429, 502, 503, 504)


def headers_for(token: str | None) -> dict[str, str]:
    told = {"User-Agent": "noetl-client", "Accept": "application/json"}
    return told if token is None else {**told, "Authorization": f"Bearer {token}"}


def arguments(request: ApiRequest[Any]) -> dict[str, Any]:
    """A request as httpx takes it."""
    headers = dict(request.headers)
    if request.content is not None:
        headers["Content-Type"] = request.media_type
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.params) or None,
        "content": request.content,
        "headers": headers,
        "timeout": TIMEOUT_S + request.wait_s,
    }


def pause_before_next(request: ApiRequest[Any], tries: int, response: httpx2.Response | None) -> float | None:
    """How long to wait before sending it again, None when that is not to be done."""
    if response is not None and response.status_code not in _PASSING:
        return None
    is_safe = request.again or (response is not None and response.status_code == 429)
    if not is_safe or tries >= TRIES:
        return None
    return delay_s(tries - 1, response.headers.get("Retry-After") if response is not None else None)


# Event streams as they come over the wire: lines to messages, messages to events (server-sent events).


class StreamMessage(msgspec.Struct, frozen=True):
    """`name` is "message" unless the server says otherwise; `at` is what to say when coming back."""

    name: str
    data: str
    at: str | None


class Reader:
    """Takes one line after the other, and gives a message when one is complete."""

    def __init__(self) -> None:
        self._name, self._data = "", list[str]()
        self._at: str | None = None

    def take(self, line: str) -> Iterator[StreamMessage]:
        if not line:
            if self._data:
                yield StreamMessage(self._name or "message", "\n".join(self._data), self._at)
            self._name, self._data = "", []
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._at = value


def event_of(told: dict[str, Any]) -> Event:
    """The event that a server tells in its readable form."""
    return Event(
        execution_id=told["execution_id"],
        seq=told["seq"],
        event_id=told["event_id"],
        ts=seconds_of(told["ts"]),
        source=EventSource(told["source"]),
        payload=decode_payload(told["event_type"], msgspec.json.encode(told["payload"]), told["schema"]),
        trace_id=told["trace_id"],
        parent_id=told["parent_id"],
        step=told["step"],
        step_run_id=told["step_run_id"],
        task_run_id=told["task_run_id"],
        on_behalf=told["on_behalf"],
        schema=told["schema"],
    )


def seconds_of(moment: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.fromisoformat(moment).timestamp()
