"""Token requests: a form to a token endpoint, under the same address policy as tools (KEY-04).

The request contains a secret: no redirect is followed, and plain http only where it cannot leave the machine. A proxy
that the operator has set is asked for a tunnel, and sees nothing of it. The response is bounded before it is read.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from noetl.base.addresses.policy import AddressGuard, BlockedError, UnresolvedError
from noetl.base.addresses.proxies import Proxy
from noetl.base.errors import BackendError, NoetlError, RefusedError
from noetl.events.secret_materials import VALUE, Material
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Sources, unresolved

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 256 * 1024
Headers = dict[bytes | str, bytes | str]
_PORTS = {"https": 443, "http": 80}


class TokenRequests:
    """Sends forms to token endpoints that `guard` lets be reached."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    async def __call__(self, url: str, form: dict[str, str], login: tuple[str, str] | None) -> tuple[int, Any]:
        """The status and the parsed body; the body is None if it is not JSON."""
        await self._check(url)
        headers: Headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if login:
            headers["authorization"] = "Basic " + b64encode(":".join(login).encode()).decode()
        status, body = await self._send_request(url, headers, urlencode(form).encode())
        try:
            return status, json.loads(body)
        except ValueError:
            return status, None

    async def _check(self, url: str) -> None:
        """RefusedError if the endpoint must not be called, or not without TLS."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise RefusedError("a token endpoint begins with https://")
        port = parts.port or _PORTS[parts.scheme]
        try:
            if self._proxy(url) is not None:
                await self._guard.allow_by_proxy(parts.hostname, port)
                # A proxy connects from outside this machine, regardless of the address of the name.
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

    async def _send_request(self, url: str, headers: Headers, body: bytes) -> tuple[int, bytes]:
        import httpcore2  # slow to import, and rarely needed
        import httpx2

        from noetl.base.addresses.connections import GuardedBackend, connection_pool

        limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_S)}
        backend = GuardedBackend(self._guard)
        try:
            async with (
                # A pool for one request, closed with it: no connection stays open that carries a login.
                connection_pool(backend, self._proxy(url), tls=httpx2.create_ssl_context()) as connections,
                connections.stream("POST", url, headers=headers, content=body, extensions=limits) as answer,
            ):
                return answer.status, await _read_body(answer)
        except httpcore2.ProxyError as problem:
            raise BackendError(f"the proxy refused it ({problem})") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as problem:
            raise BackendError(type(problem).__name__) from None
        except (BlockedError, UnresolvedError) as problem:
            raise RefusedError(problem.message) from None


async def _read_body(answer: Any) -> bytes:
    found = b""
    async for part in answer.aiter_stream():
        found += part
        if len(found) > MAX_ANSWER_BYTES:
            raise RefusedError(f"its answer has more than {MAX_ANSWER_BYTES >> 10} KiB")
    return found


# Tokens by the client credentials grant of OAuth 2, renewed before they run out (KEY-04).

DEFAULT_LIFE_S = 300.0  # where the endpoint does not say (RFC 6749 §5.1 leaves it open)
MARGIN_S = 60.0  # how long before its end a token is renewed, at most a tenth of its life
# Only the error code of the endpoint: its message may repeat the secret that was sent.
_CODE = re.compile(r"[\w.-]{1,60}\Z")


async def granted(entry: KeychainEntry, asked: Mapping[str, Any], sources: Sources) -> Material:
    """A new token. Errors never contain the endpoint's answer, only its status and its error code."""
    url, form, login = _request(entry, asked)
    try:
        status, body = await sources.post(url, form, login)
    except (NoetlError, OSError) as problem:
        raise unresolved(entry, f"the token endpoint {shown_host(url)} did not answer: {problem}") from None
    token = body.get("access_token") if isinstance(body, dict) else None
    if status != 200 or not isinstance(token, str) or not token:
        raise unresolved(entry, f"the token endpoint {shown_host(url)} gave no token (status {status}{_code(body)})")
    return _material(body, token, sources.clock.now())


def _request(entry: KeychainEntry, asked: Mapping[str, Any]) -> tuple[str, dict[str, str], tuple[str, str] | None]:
    texts = {key: str(asked[key]) for key in ("token_url", "client_id", "client_secret") if asked.get(key)}
    missing = [key for key in ("token_url", "client_id", "client_secret") if key not in texts]
    if missing:
        raise unresolved(entry, f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    form = {"grant_type": "client_credentials"}
    scope = asked.get("scope")
    if scope:
        form["scope"] = " ".join(map(str, scope)) if isinstance(scope, list) else str(scope)
    if asked.get("audience"):
        form["audience"] = str(asked["audience"])
    login = (texts["client_id"], texts["client_secret"])
    # The header is what RFC 6749 prefers; some endpoints take the form alone.
    if asked.get("auth_method") == "post":
        return texts["token_url"], {**form, "client_id": login[0], "client_secret": login[1]}, None
    return texts["token_url"], form, login


def _material(body: dict[str, Any], token: str, now: float) -> Material:
    life = body.get("expires_in")
    life_s = (
        float(life) if isinstance(life, int | float) and not isinstance(life, bool) and life > 0 else DEFAULT_LIFE_S
    )
    fields = {
        "type": "bearer",
        "token": token,
        "access_token": token,
        VALUE: token,
        "token_type": str(body.get("token_type", "Bearer")),
        "authorization": f"Bearer {token}",
        "expires_at": now + life_s,
    }
    # At most a tenth of its life: with the full margin, a token of one minute would be due at once.
    return Material(fields=fields, refresh_after=now + life_s - min(MARGIN_S, life_s / 10))


def shown_host(url: str) -> str:
    # Without the login in the URL.
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _code(body: Any) -> str:
    code = body.get("error") if isinstance(body, dict) else None
    return f", {code}" if isinstance(code, str) and _CODE.match(code) else ""
