"""The connection to a server: it repeats requests until they are answered, and turns refusals into messages. Also the
server's clock.

Every request of a worker is idempotent (reliability.md §3.1), so the worker need not know whether the answer or the
request was lost.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import msgspec

from noetl.base.clock import Clock
from noetl.base.durations import retry_delay_s
from noetl.base.errors import BackendError, RefusedError, error_text
from noetl.base.redaction import without_password
from noetl.worker.attempt import Sleep
from noetl.worker.http1 import HttpConnection, HttpConnectionError, Reply

# Raised when older and newer servers and workers would misunderstand each other. The server refuses an unknown version.
PROTOCOL = "1"
PROTOCOL_HEADER = "Noetl-Protocol"
TIMEOUT_S = 15.0
Say = Callable[[str], None]
_TOLERANCE_S = 10.0  # the header has whole seconds, and answers take time: smaller differences are ignored


class ServerRefusedError(RefusedError):
    """The server refused the request. `problem` is the body of its answer."""

    def __init__(self, message: str, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem


def headers_for(token: str | None) -> dict[str, str]:
    headers = {PROTOCOL_HEADER: PROTOCOL, "User-Agent": "noetl-worker"}
    return headers if token is None else {**headers, "Authorization": f"Bearer {token}"}


def is_passing(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status >= 500 or status in (408, 429)


def refusal(status: int, reason: str, content: bytes, url: str) -> ServerRefusedError:
    """The refusal of a request, from the problem+json of the answer if there is one."""
    try:
        problem = msgspec.json.decode(content)
    except msgspec.DecodeError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    detail = problem.get("detail") or problem.get("title") or reason
    match status:
        case 401:
            words = f"{detail}: give a valid token with NOETL_TOKEN or --token-file"
        case 404 if not problem:
            parts = urlsplit(url)
            words = f"there is no {parts.path} at {parts.hostname}: is this a NoETL server?"
        case _:
            words = str(detail)
    return ServerRefusedError(f"the server refused ({status}): {words}", status, problem)


class ServerConnection:
    """`say` is called once when the server stops answering, and once when it answers again."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        say: Say = lambda _: None,
        sleep: Sleep = asyncio.sleep,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self.url = url.rstrip("/")
        self._say, self._sleep, self._is_down = say, sleep, False
        self.headers, self.verify = headers_for(token), verify
        self._http = HttpConnection(self.url, self.headers, verify=verify)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        patience_s: float = TIMEOUT_S,
        media_type: str = "application/json",
        again: Callable[[], bytes] | None = None,
    ) -> Reply:
        """Repeat the request until it is answered. `patience_s` is for one try. `again` returns the body of each try
        after one that the server may have processed. Raises ServerRefusedError for a 4xx."""
        target = f"{path}?{urlencode(params)}" if params else path
        tries, is_repeated = 0, False
        while True:
            retry_after = None
            try:
                content = again() if again is not None and is_repeated else body
                reply = await self._http.ask(method, target, body=content, media_type=media_type, timeout_s=patience_s)
            except HttpConnectionError as problem:
                # A request that was not sent needs no new body: the server cannot have acted on it.
                is_repeated = is_repeated or problem.was_sent
                if problem.was_idle:
                    continue  # this ends: after the kept connections a new one is opened
                self._note_lost_connection(str(problem))
            else:
                is_repeated = True  # a server that failed may have processed it
                if not is_passing(reply.status):
                    self._note_reachable()
                    if reply.is_error:
                        raise refusal(reply.status, reply.reason, reply.content, self.url + path)
                    return reply
                self._note_lost_connection(str(refusal(reply.status, reply.reason, reply.content, self.url + path)))
                retry_after = reply.headers.get("retry-after")
            await self._sleep(retry_delay_s(tries, retry_after))
            tries += 1

    def _note_lost_connection(self, why: str) -> None:
        if not self._is_down:
            self._say(f"{without_password(self.url)} does not answer ({why}); trying again")
        self._is_down = True

    def _note_reachable(self) -> None:
        if self._is_down:
            self._say(f"{without_password(self.url)} answers again")
        self._is_down = False

    async def close(self) -> None:
        await self._http.close()


class PlainServerConnection:
    """The same for threads: one try, and BackendError if there is no answer."""

    def __init__(
        self, url: str, token: str | None, *, verify: ssl.SSLContext | bool = True, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._url = url.rstrip("/")
        self._client = httpx2.Client(
            base_url=self._url, headers=headers_for(token), timeout=timeout_s, verify=verify, trust_env=False
        )

    def ask(
        self, method: str, path: str, *, body: bytes | None = None, patience_s: float | None = None
    ) -> httpx2.Response:
        try:
            response = self._client.request(
                method,
                path,
                content=body,
                headers={"Content-Type": "application/json"} if body is not None else None,
                timeout=httpx2.USE_CLIENT_DEFAULT if patience_s is None else patience_s,
            )
        except httpx2.TransportError as problem:
            raise BackendError(f"{without_password(self._url)} does not answer: {error_text(problem)}") from problem
        if response.is_error:
            refused = refusal(response.status_code, response.reason_phrase, response.content, str(response.request.url))
            raise BackendError(str(refused)) if is_passing(response.status_code) else refused
        return response

    def close(self) -> None:
        self._client.close()


# The server's clock, as a worker estimates it: its own clock, corrected by the `Date` of the server's answers.
#
# Deadlines are sent as times (WRK-07). A worker whose clock is an hour off would stop every step at once, or never.


class ServerClock:
    def __init__(self, own: Clock) -> None:
        self._own = own
        self.ahead_s = 0.0  # how far the server's clock is ahead of this machine's

    def now(self) -> float:
        return self._own.now() + self.ahead_s

    def note_server_time(self, date: str | None) -> None:
        """Correct the clock with the time of an answer that has just come: an HTTP date, or seconds since the epoch."""
        if date is None:
            return
        try:
            # An HTTP date has no fractions of a second: on average it is half a second too early.
            server_time = float(date) if date[:1].isdigit() else parsedate_to_datetime(date).timestamp() + 0.5
        except (TypeError, ValueError):
            return
        ahead_s = server_time - self._own.now()
        if abs(ahead_s - self.ahead_s) > _TOLERANCE_S:
            self.ahead_s = ahead_s if abs(ahead_s) > _TOLERANCE_S else 0.0
