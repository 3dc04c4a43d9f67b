"""Token requests: a form to a token endpoint, under the same address policy as tools (KEY-04).

What is sent is a secret: no redirect is followed, no proxy asked, and plain http only where it cannot leave the
machine. What comes back is bounded before it is read.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from urllib.parse import urlencode, urlsplit

from noetl.base.addresses.guard import AddressGuard, BlockedError, UnresolvedError
from noetl.base.errors import BackendError, RefusedError

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 256 * 1024
Headers = dict[bytes | str, bytes | str]
_PORTS = {"https": 443, "http": 80}


class TokenRequests:
    """Sends forms to token endpoints that `guard` lets be reached."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    async def __call__(self, url: str, form: dict[str, str], login: tuple[str, str] | None) -> tuple[int, Any]:
        """The status and the parsed body; None for one that is no JSON."""
        await self._check(url)
        headers: Headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if login:
            headers["authorization"] = "Basic " + b64encode(":".join(login).encode()).decode()
        status, body = await self._sent(url, headers, urlencode(form).encode())
        try:
            return status, json.loads(body)
        except ValueError:
            return status, None

    async def _check(self, url: str) -> None:
        """RefusedError where the endpoint may not be asked, or not without TLS."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise RefusedError("a token endpoint begins with https://")
        try:
            addresses = await self._guard.addresses(parts.hostname, parts.port or _PORTS[parts.scheme])
        except (BlockedError, UnresolvedError) as problem:
            raise RefusedError(problem.message) from None
        if parts.scheme == "http" and not all(address.is_loopback for address in addresses):
            raise RefusedError("the client secret would go there unencrypted: write https://")

    async def _sent(self, url: str, headers: Headers, body: bytes) -> tuple[int, bytes]:
        import httpcore2  # slow to import, and rarely needed
        import httpx2

        from noetl.base.addresses.connections import GuardedBackend

        limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_S)}
        backend = GuardedBackend(self._guard)
        try:
            async with (
                httpcore2.AsyncConnectionPool(
                    ssl_context=httpx2.create_ssl_context(), network_backend=backend
                ) as connections,
                connections.stream("POST", url, headers=headers, content=body, extensions=limits) as answer,
            ):
                return answer.status, await _bounded(answer)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as problem:
            raise BackendError(type(problem).__name__) from None
        except (BlockedError, UnresolvedError) as problem:
            raise RefusedError(problem.message) from None


async def _bounded(answer: Any) -> bytes:
    found = b""
    async for part in answer.aiter_stream():
        found += part
        if len(found) > MAX_ANSWER_BYTES:
            raise RefusedError(f"its answer has more than {MAX_ANSWER_BYTES >> 10} KiB")
    return found
