"""The line to a server: requests that are sent again until they are answered, and refusals in plain words.

Whatever a worker sends may arrive twice and mean the same (RELIABILITY 3.1), so it never has to know whether the
answer or the request was lost.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
import msgspec

from noetl.errors import BackendError, RefusedError
from noetl.worker.attempt import Sleep
from noetl.worker.backoff import delay_s

PROTOCOL = "1"
PROTOCOL_HEADER = "Noetl-Protocol"
TIMEOUT_S = 15.0

Say = Callable[[str], None]


class ServerRefusedError(RefusedError):
    """The server has understood and will not. `problem` is what it answered, as it came."""

    def __init__(self, message: str, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem


def headers_for(token: str | None) -> dict[str, str]:
    told = {PROTOCOL_HEADER: PROTOCOL, "User-Agent": "noetl-worker"}
    return told if token is None else {**told, "Authorization": f"Bearer {token}"}


def is_passing(response: httpx2.Response) -> bool:
    """Whether the same request may be answered another time."""
    return response.status_code >= 500 or response.status_code in (408, 429)


def refusal(response: httpx2.Response) -> ServerRefusedError:
    """What the server has against a request, from its problem+json where there is one."""
    try:
        problem = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    detail = problem.get("detail") or problem.get("title") or response.reason_phrase
    request = response.request
    match response.status_code:
        case 401:
            words = f"{detail}: give a valid token with NOETL_TOKEN or --token-file"
        case 404 if not problem:
            words = f"there is no {request.url.path} at {request.url.host}: is this a NoETL server?"
        case _:
            words = str(detail)
    return ServerRefusedError(f"the server refused ({response.status_code}): {words}", response.status_code, problem)


class Line:
    """`say` hears once when the server is out of reach, and once when it is back."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        say: Say = lambda _: None,
        sleep: Sleep = asyncio.sleep,
        verify: ssl.SSLContext | bool = True,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._say, self._sleep, self._is_down = say, sleep, False
        self._client = httpx2.AsyncClient(
            base_url=self.url,
            headers=headers_for(token),
            timeout=TIMEOUT_S,
            verify=verify,
            transport=transport,
            trust_env=False,
        )

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
    ) -> httpx2.Response:
        """The answer, however long it takes to get one. `patience_s` is for one try; `again` gives the body of those
        after the first, whose answer may be lost. ServerRefusedError for a 4xx."""
        tries = 0
        while True:
            retry_after = None
            try:
                response = await self._client.request(
                    method,
                    path,
                    content=again() if again is not None and tries else body,
                    params=params,
                    timeout=httpx2.Timeout(TIMEOUT_S, read=patience_s),
                    headers={"Content-Type": media_type} if body is not None else None,
                )
            except httpx2.TransportError as problem:
                self._lost(str(problem) or type(problem).__name__)
            else:
                if not is_passing(response):
                    self._found()
                    if response.is_error:
                        raise refusal(response)
                    return response
                self._lost(str(refusal(response)))
                retry_after = response.headers.get("Retry-After")
            await self._sleep(delay_s(tries, retry_after))
            tries += 1

    def _lost(self, why: str) -> None:
        if not self._is_down:
            self._say(f"{self.url} does not answer ({why}); trying again")
        self._is_down = True

    def _found(self) -> None:
        if self._is_down:
            self._say(f"{self.url} answers again")
        self._is_down = False

    async def close(self) -> None:
        await self._client.aclose()


class PlainLine:
    """The same for threads: one try, and BackendError when nobody answers it."""

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
            raise BackendError(f"{self._url} does not answer: {problem}") from problem
        if is_passing(response):
            raise BackendError(str(refusal(response)))
        if response.is_error:
            raise refusal(response)
        return response

    def close(self) -> None:
        self._client.close()
