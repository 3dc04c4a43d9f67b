"""Tokens by the client credentials grant of OAuth 2, renewed before they run out (KEY-04)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from noetl.base.errors import NoetlError
from noetl.events.secret_materials import VALUE, Material
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Sources, unresolved

DEFAULT_LIFE_S = 300.0  # where the endpoint does not say (RFC 6749 §5.1 leaves it open)
MARGIN_S = 60.0  # how long before its end a token is renewed, at most a tenth of its life
_CODE = re.compile(r"[\w.-]{1,60}\Z")


async def granted(entry: KeychainEntry, asked: Mapping[str, Any], sources: Sources) -> Material:
    """A new token. The endpoint's answer is never told, only its status and its error code."""
    url, form, login = _request(entry, asked)
    try:
        status, body = await sources.post(url, form, login)
    except (NoetlError, OSError) as problem:
        raise unresolved(entry, f"the token endpoint {_host(url)} did not answer: {problem}") from None
    token = body.get("access_token") if isinstance(body, dict) else None
    if status != 200 or not isinstance(token, str) or not token:
        raise unresolved(entry, f"the token endpoint {_host(url)} gave no token (status {status}{_code(body)})")
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
    return Material(fields=fields, refresh_after=now + life_s - min(MARGIN_S, life_s / 10))


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _code(body: Any) -> str:
    code = body.get("error") if isinstance(body, dict) else None
    return f", {code}" if isinstance(code, str) and _CODE.match(code) else ""
