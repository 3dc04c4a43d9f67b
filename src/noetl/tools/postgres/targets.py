"""Targets: the server that a credential names, with all fields set, so that the environment of the worker (PGPASSWORD,
a password file) is never used for a server that a playbook chose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext
from noetl.tools.input_shapes import auth_forms, connection_fields

_FIELDS = {
    "host": ("host", "db_host", "hostname", "server"),
    "port": ("port", "db_port"),
    "user": ("user", "db_user", "username", "login"),
    "password": ("password", "db_password"),
    "database": ("database", "db_name", "dbname", "db", "db_database"),
    "ssl": ("sslmode", "ssl"),
    "schema": ("schema", "search_path", "db_schema"),
}
ADDRESS = "dsn"
_DSN = (ADDRESS, "uri", "url", "connection_string")
_ASSIGNMENT = re.compile(r"\s*(?P<key>\w+)\s*=\s*(?P<value>'(?:[^'\\\\]|\\\\.)*'|[^\s']+)")


class PostgresTarget(msgspec.Struct, frozen=True):
    """One server, database and role. Its `repr` shows no password."""

    host: str
    port: int = 5432
    user: str = "postgres"
    password: str = ""
    database: str = ""
    ssl: str | None = None
    schema: str | None = None

    @property
    def on_socket(self) -> bool:
        return self.host.startswith("/")

    def __str__(self) -> str:
        return f'database "{self.database or self.user}" at {self.host}:{self.port} as {self.user}'

    __repr__ = __str__

    def connect_arguments(self) -> dict[str, Any]:
        settings = {
            "application_name": "noetl",
            "standard_conforming_strings": "on",  # the lexer of SQL templates relies on it
        }
        if self.schema:
            settings["search_path"] = self.schema
        # Without the host: a tool connects to the address that was checked for it.
        return {
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database or self.user,
            "server_settings": settings,
        }


def target_of(auth: Any, context: ToolContext, *, kind: str = "postgres") -> PostgresTarget:
    """The target of a task's `auth`: fields, a connection address, the name of a credential, or a name with fields
    over it ({credential: name, type: …}), as http takes it too."""
    given = connection_fields(auth, context, kind=kind, address=ADDRESS)
    try:
        fields = _fields(given)
        if "host" not in fields:  # this machine is never the default
            message = f'"auth" does not say which server: it needs a host or a dsn; it is {auth_forms(ADDRESS)}'
            raise ToolError("keychain.unresolved", message)
        # libpq reads a list: of /run/postgresql/x,10.0.0.1 the socket would be judged, and the address connected to.
        if "," in fields["host"]:
            raise ToolError("keychain.unresolved", '"auth" has several hosts: name one, a task connects to that alone')
        return msgspec.convert(fields, PostgresTarget, strict=False)
    except (msgspec.ValidationError, ValueError):  # the message of the library could contain the password
        raise ToolError("keychain.unresolved", "the credential has a field that is not what it should be") from None


async def libpq_address(target: PostgresTarget, context: ToolContext) -> str:
    """A target in the format of libpq, at an address that the policy allows; with `hostaddr` libpq does not resolve the
    name again. The password is passed separately: SQL can list the addresses of databases."""
    what = f"the PostgreSQL {target}"
    if target.on_socket:
        context.addresses.allow_socket(what, target.host)
    fields = {
        "host": target.host,
        "hostaddr": "" if target.on_socket else await context.addresses.address(what, target.host, target.port),
        "sslmode": target.ssl or "",
        "port": str(target.port),
        "user": target.user,
        "dbname": target.database or target.user,
    }
    escaped = {key: value.replace("\\", "\\\\").replace("'", "\\'") for key, value in fields.items()}
    return " ".join(f"{key}='{value}'" for key, value in escaped.items() if value)


def _fields(auth: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in _DSN:
        if auth.get(key):
            found = _of_address(str(auth[key]))
    # A field beside the address replaces that part of it.
    for field, spellings in _FIELDS.items():
        for spelling in spellings:
            if auth.get(spelling) not in (None, ""):
                found[field] = auth[spelling]
                break
    # libpq has words for it, and YAML invites true and false.
    if isinstance(found.get("ssl"), bool):
        found["ssl"] = "require" if found["ssl"] else "disable"
    return {key: value if key == "port" else str(value) for key, value in found.items()}


def _of_address(address: str) -> dict[str, Any]:
    """The fields of `postgresql://user:password@host:port/database?sslmode=…`."""
    if "://" not in address and _ASSIGNMENT.match(address):
        return _of_assignments(address)
    parts = urlsplit(address)
    if parts.scheme not in ("postgres", "postgresql"):  # not shown: any part of it may be a password
        message = "the address in auth is none of PostgreSQL: write postgresql://user:password@host:5432/database"
        raise ToolError("keychain.unresolved", message)
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


def _of_assignments(address: str) -> dict[str, Any]:
    """The fields of `host=db user=ada password='…'`, as libpq writes an address."""
    found = {match["key"]: _unquoted_value(match["value"]) for match in _ASSIGNMENT.finditer(address)}
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}
    return {field: found[key] for key, field in {**names, "sslmode": "ssl"}.items() if found.get(key)}


def _unquoted_value(value: str) -> str:
    inside = value[1:-1] if value.startswith("'") else value
    return re.sub(r"\\(.)", r"\1", inside)
