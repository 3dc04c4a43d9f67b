"""Targets: which server a credential names, told field by field, so that nothing of the worker's own environment
(PGPASSWORD, a password file) ever goes to a server that a playbook chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from noetl.errors import ToolError
from noetl.tools.contract import ToolContext

_FIELDS = {
    "host": ("host", "db_host", "hostname", "server"),
    "port": ("port", "db_port"),
    "user": ("user", "db_user", "username", "login"),
    "password": ("password", "db_password"),
    "database": ("database", "db_name", "dbname", "db", "db_database"),
    "ssl": ("sslmode", "ssl"),
    "schema": ("schema", "search_path", "db_schema"),
}
_DSN = ("dsn", "uri", "url", "connection_string")


class Target(msgspec.Struct, frozen=True):
    """One server, database and role. Shown without its password."""

    host: str = "localhost"
    port: int = 5432
    user: str = "postgres"
    password: str = ""
    database: str = ""
    ssl: str | None = None
    schema: str | None = None

    def __str__(self) -> str:
        return f'database "{self.database or self.user}" at {self.host}:{self.port} as {self.user}'

    __repr__ = __str__

    def connect_arguments(self) -> dict[str, Any]:
        settings = {
            "application_name": "noetl",
            "standard_conforming_strings": "on",  # the lexer of SQL templates counts on it
        }
        if self.schema:
            settings["search_path"] = self.schema
        on_socket = self.host.startswith("/")
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database or self.user,
            "ssl": False if on_socket else self.ssl or "prefer",
            "server_settings": settings,
        }


def target_of(auth: Any, context: ToolContext) -> Target:
    """The target of a task's `auth`: fields, a connection address, the name of a credential, or a name with fields
    over it ({credential: name, type: …}), as http takes it too."""
    if auth is None:
        raise ToolError("keychain.unresolved", 'a postgres task needs "auth": the name of a credential, or its fields')
    if isinstance(auth, str) and "://" in auth:
        auth = {"dsn": auth}
    if isinstance(auth, str):
        auth = _resolved(auth, context)
    elif isinstance(auth, Mapping) and (name := auth.get("credential")):
        auth = {**_resolved(str(name), context), **{key: auth[key] for key in auth if key != "credential"}}
    if not isinstance(auth, Mapping):
        raise ToolError("keychain.unresolved", f'"auth" is a name or a mapping, not {type(auth).__name__}')
    try:
        return msgspec.convert(_fields(auth), Target, strict=False)
    except (msgspec.ValidationError, ValueError):  # their words could hold the password
        raise ToolError("keychain.unresolved", "the credential has a field that is not what it should be") from None


def _resolved(name: str, context: ToolContext) -> Mapping[str, Any]:
    if context.resolve is None:
        raise ToolError("keychain.unresolved", f'the credential "{name}" is not known here')
    return context.resolve(name)


def _fields(auth: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(data := auth.get("data"), Mapping):  # a stored credential: {type, data: {…}}
        auth = {**auth, **data}
    for key in _DSN:
        if auth.get(key):
            found = _of_address(str(auth[key]))
    for field, spellings in _FIELDS.items():
        for spelling in spellings:
            if auth.get(spelling) not in (None, ""):
                found[field] = auth[spelling]
                break
    if isinstance(found.get("ssl"), bool):
        found["ssl"] = "require" if found["ssl"] else "disable"
    return {key: value if key == "port" else str(value) for key, value in found.items()}


def _of_address(address: str) -> dict[str, Any]:
    """The fields of `postgresql://user:password@host:port/database?sslmode=…`."""
    parts = urlsplit(address)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ToolError("keychain.unresolved", f'"{parts.scheme}://" is no address of PostgreSQL: write postgresql://')
    if "@" in parts.path + parts.query + parts.fragment:  # a password was cut in two, and half of it would be shown
        raise ToolError(
            "keychain.unresolved", "the address has an @ after its host: write / @ ? # in a password as %2F %40 %3F %23"
        )
    query = dict(parse_qsl(parts.query))
    found = {
        "host": unquote(parts.hostname or "") or query.get("host"),
        "port": parts.port or query.get("port"),
        "user": unquote(parts.username or "") or query.get("user"),
        "password": unquote(parts.password or "") or query.get("password"),
        "database": unquote(parts.path.lstrip("/")) or query.get("dbname"),
        "ssl": query.get("sslmode"),
    }
    return {key: value for key, value in found.items() if value}
