"""The shapes of `auth` for tools that open a connection: the name of a credential, its fields, or an address.

Whatever else stands there is an error that names these shapes. Nothing is guessed, and nothing of it is shown: who can
say which part is a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.net.secret_reads import credential_name
from noetl.tools.contract import ToolContext

UNRESOLVED = "keychain.unresolved"


def connection_fields(auth: Any, context: ToolContext, *, kind: str, address: str) -> Mapping[str, Any]:
    """The fields that a task's `auth` stands for; an address stands under `address`. ToolError `keychain.unresolved`
    names the shapes that a task of this kind takes."""
    if auth is None or auth in ("", {}, []):
        raise ToolError(UNRESOLVED, f'a {kind} task needs "auth": {shapes(address)}')
    if isinstance(auth, str) and credential_name(auth) is None:
        return {address: auth}
    if isinstance(auth, str):
        return _opened(_resolved(auth, context))
    if not isinstance(auth, Mapping):
        raise ToolError(UNRESOLVED, f'"auth" cannot be a {_kind_of(auth)}: it is {shapes(address)}')
    if (name := auth.get("credential")) is None:
        return _opened(auth)
    if not isinstance(name, str) or credential_name(name) is None:
        raise ToolError(UNRESOLVED, f'"auth.credential" is no name of a credential: "auth" is {shapes(address)}')
    return _opened({**_resolved(name, context), **{key: auth[key] for key in auth if key != "credential"}})


def shapes(address: str) -> str:
    return f"the name of a credential, {{credential: NAME}}, its fields such as {{host: …}}, or its {address}"


def _opened(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stored credential is {type, data: {…}}."""
    data = fields.get("data")
    return {**fields, **data} if isinstance(data, Mapping) else fields


def _resolved(name: str, context: ToolContext) -> Mapping[str, Any]:
    if context.resolve is None:
        raise ToolError(UNRESOLVED, f'the credential "{name}" is not known here')
    return context.resolve(name)


def _kind_of(value: Any) -> str:
    return {list: "list", bool: "boolean", int: "number", float: "number"}.get(type(value), type(value).__name__)
