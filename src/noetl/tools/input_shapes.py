"""Shapes of inputs that several kinds share: `auth`, whole numbers, the time limit of a task.

`auth` of tools that open a connection is the name of a credential, its fields, or an address. Anything else is an error
that names these forms. The error never shows the value, since any part of it may be a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.net.secret_reads import credential_name
from noetl.tools.contract import ToolContext

UNRESOLVED = "keychain.unresolved"
Default = TypeVar("Default", int, None)


def connection_fields(auth: Any, context: ToolContext, *, kind: str, address: str) -> Mapping[str, Any]:
    """The connection fields of a task's `auth`; an address is returned in the field `address`. Raises ToolError
    `keychain.unresolved`, which names the forms that a task of this kind accepts."""
    if auth is None or auth in ("", {}, []):
        raise ToolError(UNRESOLVED, f'a {kind} task needs "auth": {auth_forms(address)}')
    if isinstance(auth, str) and credential_name(auth) is None:
        return {address: auth}
    if isinstance(auth, str):
        return _with_data(_credential_fields(auth, context))
    if not isinstance(auth, Mapping):
        raise ToolError(UNRESOLVED, f'"auth" cannot be a {_type_name(auth)}: it is {auth_forms(address)}')
    if (name := auth.get("credential")) is None:
        return _with_data(auth)
    if not isinstance(name, str) or credential_name(name) is None:
        raise ToolError(
            UNRESOLVED, f'"auth.credential" is not the name of a credential: "auth" is {auth_forms(address)}'
        )
    # Fields beside the name override those of the credential.
    return _with_data({**_credential_fields(name, context), **{key: auth[key] for key in auth if key != "credential"}})


def auth_forms(address: str) -> str:
    return f"the name of a credential, {{credential: NAME}}, its fields such as {{host: …}}, or its {address}"


def _with_data(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields with those under `data` beside them: a stored credential is {type, data: {…}}."""
    data = fields.get("data")
    return {**fields, **data} if isinstance(data, Mapping) else fields


def _credential_fields(name: str, context: ToolContext) -> Mapping[str, Any]:
    if context.resolve is None:
        raise ToolError(UNRESOLVED, f'the credential "{name}" is not known here')
    return context.resolve(name)


def _type_name(value: Any) -> str:
    return {list: "list", bool: "boolean", int: "number", float: "number"}.get(type(value), type(value).__name__)


def whole_number(
    written: Any, name: str, default: Default, *, error: str, least: int = 1, most: int | None = None
) -> int | Default:
    """The number that a task wrote as `name`, or `default`. Raises ToolError `error` for anything else."""
    if written is None:
        return default
    # True is an int in Python; a YAML author who wrote `yes` did not mean 1.
    is_number = isinstance(written, int) and not isinstance(written, bool)
    if not is_number or written < least or (most is not None and written > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ToolError(error, f'{name} "{str(written)[:100]}" is not a number {bounds}')
    return int(written)


def total_timeout(context: ToolContext) -> Any:
    """The time limit of the whole task as it is written: `spec.timeout`, or the `total` or `read` of its parts."""
    timeout = context.spec.get("timeout")
    return timeout.get("total", timeout.get("read")) if isinstance(timeout, Mapping) else timeout


def timeout_s(context: ToolContext, default_s: float) -> float:
    """The same in seconds. Raises ValueError if it is no duration."""
    written = total_timeout(context)
    return default_s if written is None else seconds(written)
