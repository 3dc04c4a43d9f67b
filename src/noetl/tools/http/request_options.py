"""What a task says about its request, with the defaults (SPEC-05, TOOL-04): the options of its effective spec, and
`auth`. Also the refusal of a request that cannot be sent as it is written.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.net.secret_reads import credential_name

TIMEOUT_S = 30.0  # O-33
CONNECT_S = 10.0
TOTAL_S = 300.0  # of a timeout that is told by parts, so that a dribble ends too
MAX_BYTES = 64 * 1024 * 1024
_FALSE = frozenset({"false", "no", "off", "0"})


class RequestTimeout(msgspec.Struct, frozen=True):
    """How long a request may take."""

    connect_s: float = CONNECT_S
    read_s: float = TIMEOUT_S  # between two pieces of the answer
    total_s: float = TIMEOUT_S  # the whole run, redirects included

    def extension(self) -> dict[str, float | None]:
        """As the pool takes it; the wait for a free connection is bounded by the total alone."""
        return {"connect": self.connect_s, "read": self.read_s, "write": self.read_s, "pool": None}


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    timeout: RequestTimeout = RequestTimeout()
    ok_statuses: frozenset[int] = frozenset()
    follow_redirects: bool = True
    verify_ssl: bool = True
    max_bytes: int = MAX_BYTES
    auth_mode: str | None = None


def knobs_of(spec: Mapping[str, Any]) -> Knobs:
    try:
        return Knobs(
            timeout=_timeout(spec.get("timeout")),
            ok_statuses=frozenset(int(status) for status in spec.get("ok_statuses") or ()),
            follow_redirects=_flag(spec.get("follow_redirects")),
            verify_ssl=_flag(spec.get("verify_ssl")),
            max_bytes=int(spec.get("max_bytes") or MAX_BYTES),
            auth_mode=spec.get("auth_mode"),
        )
    except (TypeError, ValueError) as problem:
        raise Wrong(f"its spec cannot be read: {problem}") from None


def _timeout(written: Any) -> RequestTimeout:
    if written is None:
        return RequestTimeout()
    if not isinstance(written, Mapping):
        whole_s = seconds(written)
        return RequestTimeout(connect_s=whole_s, read_s=whole_s, total_s=whole_s)
    return RequestTimeout(
        connect_s=seconds(written.get("connect", CONNECT_S)),
        read_s=seconds(written.get("read", TIMEOUT_S)),
        total_s=seconds(written.get("total", TOTAL_S)),
    )


def _flag(written: Any) -> bool:
    """True unless it says otherwise; a template may give it as text."""
    return written.strip().lower() not in _FALSE if isinstance(written, str) else written is None or bool(written)


# The refusal of a request that cannot be sent as it is written; the tool adds which request it was.


class Wrong(Exception):  # noqa: N818  it is the playbook's mistake, and becomes an ordinary error outcome
    """The request cannot be made; the text says why, and never shows a secret."""


# Credentials: how `auth` is attached to a request: bearer, basic, a header of its own, or a query parameter.
#
# An author's own header wins.

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
