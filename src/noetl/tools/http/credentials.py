"""Credentials: how `auth` is attached to a request: bearer, basic, a header of its own, or a query parameter.

An author's own header wins.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.net.secret_reads import credential_name
from noetl.tools.http.request_options import Wrong

Resolve = Callable[[str], Mapping[str, Any]]

_MODES = {
    "bearer": "bearer",
    "token": "bearer",
    "oauth2": "bearer",
    "oauth2_client_credentials": "bearer",
    "basic": "basic",
    "http_basic": "basic",
    "header": "header",
    "api_key": "header",
    "apikey": "header",
    "query": "query",
    "headers": "headers",
}
_SECRET = ("value", "token", "access_token", "api_key", "key", "secret", "password")
_API_KEY_HEADER = "X-API-Key"
SHAPES = "the name of a credential, {credential: NAME}, or its fields such as {type: bearer, token: …}"


class Attached(msgspec.Struct, frozen=True):
    """What a credential adds to a request."""

    headers: dict[str, str] = {}
    params: dict[str, str] = {}


def fields_of(auth: Any, resolve: Resolve | None) -> Mapping[str, Any]:
    """The fields of a task's `auth`: the name of a credential, its fields, or both ({credential: name, type: …})."""
    if auth is None:
        return {}
    said: Mapping[str, Any] = {"credential": auth} if isinstance(auth, str) else auth
    if not isinstance(said, Mapping) or not said or auth == "":
        raise Wrong(f"auth is {SHAPES}, not {'empty' if not auth else type(auth).__name__}")
    if name := said.get("credential"):
        if credential_name(name) is None:  # not shown: it may be an address with a password
            raise Wrong(f"auth names no credential: it is {SHAPES}")
        if resolve is None:
            raise ToolError("keychain.unresolved", f'the credential "{name}" is not known here')
        said = {**resolve(str(name)), **{key: value for key, value in said.items() if key != "credential"}}
    data = said.get("data")  # a stored credential: {type, data: {…}}
    return {**said, **data} if isinstance(data, Mapping) else said


def attached(auth: Mapping[str, Any], mode: str | None = None) -> Attached:
    """What a credential adds; `mode` is `spec.auth_mode`, which decides before its own type (TOOL-12)."""
    if not auth:
        return Attached()
    match _mode(auth, mode):
        case "basic":
            return Attached(headers={"Authorization": basic(*_user_and_password(auth))})
        case "header":
            return Attached(headers={_place(auth, _API_KEY_HEADER): _secret(auth)})
        case "query":
            return Attached(params={_place(auth, "api_key"): _secret(auth)})
        case "headers":
            return Attached(headers={str(name): str(value) for name, value in auth["headers"].items()})
        case _:
            return Attached(headers={"Authorization": f"Bearer {_secret(auth)}"})


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _mode(auth: Mapping[str, Any], mode: str | None) -> str:
    said = mode or auth.get("type") or auth.get("scheme")
    found = _MODES.get(str(said).lower().replace("-", "_")) if said else None
    if mode and found is None:
        raise Wrong(f'spec.auth_mode "{mode}" is not known: write bearer, basic, header or query')
    if found == "header" and str(auth.get("in", "header")).lower() == "query":
        return "query"
    return found or _by_shape(auth)


def _by_shape(auth: Mapping[str, Any]) -> str:
    """How a credential that does not say is meant."""
    if isinstance(auth.get("headers"), Mapping):
        return "headers"
    if "password" in auth or "username" in auth:
        return "basic"
    if "header" in auth or "api_key" in auth:
        return "header"
    return "bearer"


def _user_and_password(auth: Mapping[str, Any]) -> tuple[str, str]:
    user = auth.get("username", auth.get("user"))
    if user is None:
        raise Wrong("its credential has no username, which basic needs")
    return str(user), str(auth.get("password", ""))


def _place(auth: Mapping[str, Any], otherwise: str) -> str:
    """The name of the header or parameter that carries the secret."""
    return str(auth.get("header") or auth.get("param") or auth.get("name") or otherwise)


def _secret(auth: Mapping[str, Any]) -> str:
    for word in _SECRET:
        if auth.get(word) is not None:
            return str(auth[word])
    raise Wrong(f"its credential has no secret: one of {', '.join(_SECRET[:5])} is needed")
