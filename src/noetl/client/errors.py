"""What goes wrong between a client and a server: it says no, or it says nothing."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec

from noetl.base.errors import BackendError, NotFoundError, RefusedError, SettledError
from noetl.base.tls_trust import UNTRUSTED, is_distrust

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
