"""Token requests: a form to a token endpoint, under the same address policy as tools (KEY-04).

What is sent is a secret: no redirect is followed, and plain http only where it cannot leave the machine. A proxy that
the operator has set is asked for a tunnel, and sees nothing of it. What comes back is bounded before it is read.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from urllib.parse import urlencode, urlsplit

from noetl.base.addresses.guard import AddressGuard, BlockedError, UnresolvedError
from noetl.base.addresses.proxies import Proxy
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
        port = parts.port or _PORTS[parts.scheme]
        try:
            if self._proxy(url) is not None:
                await self._guard.allow_by_proxy(parts.hostname, port)
                is_here = False
            else:
                is_here = all(one.is_loopback for one in await self._guard.addresses(parts.hostname, port))
        except (BlockedError, UnresolvedError) as problem:
            raise RefusedError(problem.message) from None
        if parts.scheme == "http" and not is_here:
            raise RefusedError("the client secret would go there unencrypted: write https://")

    def _proxy(self, url: str) -> Proxy | None:
        parts = urlsplit(url)
        return self._guard.policy.ways_out().proxy_for(parts.scheme, parts.hostname or "", parts.port)

    async def _sent(self, url: str, headers: Headers, body: bytes) -> tuple[int, bytes]:
        import httpcore2  # slow to import, and rarely needed
        import httpx2

        from noetl.base.addresses.connections import GuardedBackend, connection_pool

        limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_S)}
        backend = GuardedBackend(self._guard)
        try:
            async with (
                connection_pool(backend, self._proxy(url), tls=httpx2.create_ssl_context()) as connections,
                connections.stream("POST", url, headers=headers, content=body, extensions=limits) as answer,
            ):
                return answer.status, await _bounded(answer)
        except httpcore2.ProxyError as problem:
            raise BackendError(f"the proxy refused it ({problem})") from None
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
