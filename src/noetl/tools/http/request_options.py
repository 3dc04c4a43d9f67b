"""Options of a request from the effective spec, with defaults (SPEC-05, TOOL-04), and the credential of `auth`."""

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
TOTAL_S = 300.0  # total of a timeout that sets only parts, so that a response in tiny pieces ends too
MAX_BYTES = 64 * 1024 * 1024
_FALSE = frozenset({"false", "no", "off", "0"})


class RequestTimeout(msgspec.Struct, frozen=True):
    """The time limits of a request."""

    connect_s: float = CONNECT_S
    read_s: float = TIMEOUT_S  # between two pieces of the answer
    total_s: float = TIMEOUT_S  # the whole run, redirects included

    def extension(self) -> dict[str, float | None]:
        """The limits for the connection pool. Only the total limits the wait for a free connection."""
        return {"connect": self.connect_s, "read": self.read_s, "write": self.read_s, "pool": None}


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a task's `spec`."""

    timeout: RequestTimeout = RequestTimeout()
    ok_statuses: frozenset[int] = frozenset()
    follow_redirects: bool = True
    verify_ssl: bool = True
    max_bytes: int = MAX_BYTES
    auth_mode: str | None = None


def options_from_spec(spec: Mapping[str, Any]) -> RequestOptions:
    """The options of a spec. Raises InvalidRequest for a value of the wrong type."""
    try:
        return RequestOptions(
            timeout=_timeout(spec.get("timeout")),
            ok_statuses=frozenset(int(status) for status in spec.get("ok_statuses") or ()),
            follow_redirects=_flag(spec.get("follow_redirects")),
            verify_ssl=_flag(spec.get("verify_ssl")),
            max_bytes=int(spec.get("max_bytes") or MAX_BYTES),
            auth_mode=spec.get("auth_mode"),
        )
    except (TypeError, ValueError) as problem:
        raise InvalidRequest(f"its spec cannot be read: {problem}") from None


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
    """True unless set to false; a template may render it as text."""
    return written.strip().lower() not in _FALSE if isinstance(written, str) else written is None or bool(written)


class InvalidRequest(Exception):  # noqa: N818  the tool turns it into an error outcome
    """The request cannot be sent. The text is the reason and never shows a secret; the tool adds which request."""


# Credentials: `auth` is attached as bearer token, basic login, header or query parameter. A header that the author
# sets wins over it.

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
AUTH_FORMS = "the name of a credential, {credential: NAME}, or its fields such as {type: bearer, token: …}"


class AttachedCredential(msgspec.Struct, frozen=True):
    """The additions of a credential to a request."""

    headers: dict[str, str] = {}
    params: dict[str, str] = {}


def fields_of(auth: Any, resolve: Resolve | None) -> Mapping[str, Any]:
    """The fields of a task's `auth`: the name of a credential, its fields, or both ({credential: name, type: …})."""
    if auth is None:
        return {}
    fields: Mapping[str, Any] = {"credential": auth} if isinstance(auth, str) else auth
    if not isinstance(fields, Mapping) or not fields or auth == "":
        raise InvalidRequest(f"auth is {AUTH_FORMS}, not {'empty' if not auth else type(auth).__name__}")
    if name := fields.get("credential"):
        if credential_name(name) is None:  # not shown: it may be an address with a password
            raise InvalidRequest(f"auth names no credential: it is {AUTH_FORMS}")
        if resolve is None:
            raise ToolError("keychain.unresolved", f'the credential "{name}" is not known here')
        fields = {**resolve(str(name)), **{key: value for key, value in fields.items() if key != "credential"}}
    data = fields.get("data")  # a stored credential: {type, data: {…}}
    return {**fields, **data} if isinstance(data, Mapping) else fields


def attached_credential(auth: Mapping[str, Any], mode: str | None = None) -> AttachedCredential:
    """The headers or parameters of a credential; `mode` is `spec.auth_mode`, which wins over its type (TOOL-12)."""
    if not auth:
        return AttachedCredential()
    match _mode(auth, mode):
        case "basic":
            return AttachedCredential(headers={"Authorization": basic(*_user_and_password(auth))})
        case "header":
            return AttachedCredential(headers={_field_name(auth, _API_KEY_HEADER): _secret(auth)})
        case "query":
            return AttachedCredential(params={_field_name(auth, "api_key"): _secret(auth)})
        case "headers":
            return AttachedCredential(headers={str(name): str(value) for name, value in auth["headers"].items()})
        case _:
            return AttachedCredential(headers={"Authorization": f"Bearer {_secret(auth)}"})


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _mode(auth: Mapping[str, Any], mode: str | None) -> str:
    name = mode or auth.get("type") or auth.get("scheme")
    known = _MODES.get(str(name).lower().replace("-", "_")) if name else None
    if mode and known is None:
        raise InvalidRequest(f'spec.auth_mode "{mode}" is not known: write bearer, basic, header or query')
    if known == "header" and str(auth.get("in", "header")).lower() == "query":
        return "query"
    return known or _mode_by_fields(auth)


def _mode_by_fields(auth: Mapping[str, Any]) -> str:
    """The mode of a credential without a type, by its fields."""
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
        raise InvalidRequest("its credential has no username, which basic needs")
    return str(user), str(auth.get("password", ""))


def _field_name(auth: Mapping[str, Any], default: str) -> str:
    """The name of the header or parameter that carries the secret."""
    return str(auth.get("header") or auth.get("param") or auth.get("name") or default)


def _secret(auth: Mapping[str, Any]) -> str:
    for word in _SECRET:
        if auth.get(word) is not None:
            return str(auth[word])
    raise InvalidRequest(f"its credential has no secret: one of {', '.join(_SECRET[:5])} is needed")
