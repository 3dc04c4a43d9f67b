"""Connections of the `sql` tool: which database a task's `auth` and `url` name, field by field.

Nothing of the worker's environment is used. Passwords stay out of URLs that are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contract import ToolContext
from noetl.tools.files import allowed_path
from noetl.tools.sql.dialects import DIALECTS, Connection, SqlDialect, dialect_named

_FIELDS = {
    "host": ("account", "host", "hostname", "server", "db_host", "server_hostname"),
    "port": ("port", "db_port"),
    "user": ("user", "username", "login", "db_user"),
    "password": ("password", "db_password", "access_token", "token"),
    "database": ("database", "dbname", "db", "db_name", "service_name", "project", "catalog"),
}
_URLS = ("url", "dsn", "uri", "connection_string")
# What else a driver is told, by dialect. Nothing else: an option may name a file, a proxy or a host.
_OPTIONS = {
    "snowflake": ("warehouse", "schema", "role", "host", "port", "protocol", "private_key", "authenticator"),
    "databricks": ("http_path", "catalog", "schema"),
    "trino": ("schema", "http_scheme"),
    "clickhouse": ("secure",),
    "mysql": ("charset", "ssl_ca_pem", "ssl"),
    "sqlserver": ("encrypt",),
}
_PLACES = "mysql://user:password@host/database, sqlite:///file.db, snowflake://user:password@account/database, …"


def connection_of(inputs: Mapping[str, Any], context: ToolContext) -> Connection:
    """The database of a task. ToolError `keychain.unresolved` says what is missing."""
    auth, url = inputs.get("auth"), inputs.get("url")
    given = dict(connection_fields(auth, context, kind="sql", address="url")) if auth is not None else {}
    address = url or next((given[name] for name in _URLS if given.get(name)), None)
    found = _of_url(str(address)) if address else {}
    for field, spellings in _FIELDS.items():
        value = next((given[name] for name in spellings if given.get(name) not in (None, "")), None)
        if value is not None:
            found[field] = value
    dialect = found.pop("dialect", None) or _named(inputs, given)
    if dialect is None:
        known = ", ".join(DIALECTS)
        raise ToolError(
            UNRESOLVED, f'"auth" does not say which database: it needs a url ({_PLACES}) or a dialect ({known})'
        )
    if inputs.get("database"):
        found["database"] = inputs["database"]
    return _complete(dialect, found, given, inputs, context.data_folders)


def _named(inputs: Mapping[str, Any], given: Mapping[str, Any]) -> SqlDialect | None:
    """The dialect that the kind, a field of the credential or its type names."""
    names = (inputs.get("dialect"), given.get("dialect"), given.get("type"))
    return next((found for name in names if name and (found := dialect_named(str(name)))), None)


def _complete(
    dialect: SqlDialect, found: dict[str, Any], given: dict[str, Any], inputs: Mapping[str, Any], folders: Sequence[str]
) -> Connection:
    if dialect.name == "sqlite":
        return Connection(dialect="sqlite", database=_file(str(found.get("database") or ""), folders))
    if not found.get("host"):
        raise ToolError(UNRESOLVED, f'"auth" does not say which server of {dialect.name}: it needs a host or a url')
    allowed = _OPTIONS.get(dialect.name, ())
    told = {**found.pop("query", {}), **given, **{name: inputs[name] for name in allowed if inputs.get(name)}}
    options = {name: told[name] for name in allowed if told.get(name) not in (None, "")}
    try:
        port = int(found.get("port") or dialect.port)
    except ValueError:
        raise ToolError(UNRESOLVED, "the port of the credential is no number") from None
    texts = {name: str(found.get(name) or "") for name in ("host", "user", "password", "database")}
    return Connection(dialect=dialect.name, port=port, options=options, **texts)


def _of_url(url: str) -> dict[str, Any]:
    """The fields of a URL. What is wrong with it is told without it: any part may be a password."""
    try:
        parts = urlsplit(url)
        dialect = dialect_named(parts.scheme)
        if dialect is None:
            raise ToolError(UNRESOLVED, f"the url names no database that is known: write {_PLACES}")
        if dialect.name == "sqlite":
            return {"dialect": dialect, "database": unquote(url.partition("://")[2].removeprefix("/"))}
        if "@" in parts.path + parts.query + parts.fragment:
            raise ToolError(
                UNRESOLVED, "the url has an @ after its host: write / @ ? # in a password as %2F %40 %3F %23"
            )
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ToolError(UNRESOLVED, f"the url is none: write {_PLACES}") from None
    found = {
        "dialect": dialect,
        "host": host,
        "port": port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.lstrip("/")),
    }
    return {name: value for name, value in found.items() if value} | {"query": dict(parse_qsl(parts.query))}


def _file(path: str, folders: Sequence[str]) -> str:
    """A database file in one of the open folders; in memory without one."""
    if path in ("", ":memory:"):
        return ""
    return allowed_path(path, folders, kind="sql.input")
