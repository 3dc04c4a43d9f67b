"""Types of stored credentials: the required fields of each, and the fields for tools.

A value is entered as text or a JSON object. It is always stored as fields, so that readers need not know its original
form.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from noetl.base.errors import RefusedError
from noetl.events.secret_materials import VALUE

Fields = dict[str, Any]


def text(given: str | Fields) -> Fields:
    """A secret of one text, or fields as they are."""
    return {VALUE: given} if isinstance(given, str) else dict(given)


def bearer(given: str | Fields) -> Fields:
    fields = {"token": given} if isinstance(given, str) else dict(given)
    token = _text_of(fields, "token", VALUE, "access_token", "api_key")
    return {**fields, "type": "bearer", "token": token, VALUE: token, "authorization": f"Bearer {token}"}


def basic(given: str | Fields) -> Fields:
    if isinstance(given, str):
        user, colon, password = given.partition(":")
        if not colon:
            raise RefusedError("a basic credential is user:password, or an object with username and password")
        fields: Fields = {"username": user, "password": password}
    else:
        fields = dict(given)
    user, password = _text_of(fields, "username", "user", "login"), _text_of(fields, "password")
    code = b64encode(f"{user}:{password}".encode()).decode()
    return {**fields, "type": "basic", "username": user, "password": password, "authorization": f"Basic {code}"}


def postgres(given: str | Fields) -> Fields:
    fields = {"dsn": given} if isinstance(given, str) else dict(given)
    for known, spellings in _POSTGRES.items():
        # All spellings become one, so that the tool and the resolvers read a single name.
        found = next((fields.pop(name) for name in spellings if name in fields), None)
        if found is not None:
            fields[known] = found
    if isinstance(fields.get("dsn"), str) and not fields["dsn"].startswith(("postgres://", "postgresql://")):
        raise RefusedError("the dsn of a postgres credential begins with postgresql://")
    if not fields.get("dsn") and not fields.get("host"):
        raise RefusedError("a postgres credential needs a dsn (postgresql://…), or host, user, password and database")
    return {"type": "postgres", **fields}


_POSTGRES = {
    "dsn": ("dsn", "url", "uri", "connection_string"),
    "host": ("host", "hostname", "db_host"),
    "port": ("port", "db_port"),
    "user": ("user", "username", "login", "db_user"),
    "password": ("password", "db_password"),
    "database": ("database", "dbname", "db", "db_name"),
}


def oauth2(given: str | Fields) -> Fields:
    """The data of a token request; the token itself is fetched when it is needed."""
    if isinstance(given, str):
        raise RefusedError("an oauth2 credential is an object with token_url, client_id and client_secret")
    for needed in ("client_id", "client_secret"):
        _text_of(given, needed)
    return {"type": "oauth2", **given}


def _text_of(fields: Fields, *names: str) -> str:
    found = next((fields[name] for name in names if fields.get(name) not in (None, "")), None)
    # Numbers too: a password of digits may be written without quotes.
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise RefusedError(f"this credential needs {' or '.join(names)}")
    return str(found)


def _of_kind(kind: str, text_field: str) -> Callable[[str | Fields], Fields]:
    """Fields as a tool reads them; a text alone is the field that holds an address."""

    def fields(given: str | Fields) -> Fields:
        return {"type": kind, **({text_field: given} if isinstance(given, str) else given)}

    return fields


_DATABASES = ("mysql", "sqlserver", "oracle", "snowflake", "clickhouse", "trino", "redshift", "databricks")
_BY_URL = (*_DATABASES, "nats", "redis", "mqtt", "amqp", "kafka", "container", "dlt", "dask", "ray", "iceberg_rest")
_BY_FIELDS = ("s3", "gcs", "azure", "email", "ssh", "llm", "mcp", "kubernetes", "dbt")

TYPES: dict[str, Callable[[str | Fields], Fields]] = {
    "text": text,
    "bearer": bearer,
    "basic": basic,
    "postgres": postgres,
    "oauth2": oauth2,
    **{kind: _of_kind(kind, "url") for kind in _BY_URL},
    **{kind: _of_kind(kind, "webhook_url") for kind in ("slack", "teams")},
    **{kind: _of_kind(kind, "dsn") for kind in ("ducklake", "iceberg")},
    **{kind: _of_kind(kind, VALUE) for kind in _BY_FIELDS},
    "pgp": _of_kind("pgp", "private_key"),
}
GENERIC = "text"


def shaped(kind: str, given: str | Fields) -> Fields:
    """The fields of a credential of this type. RefusedError says what is missing; a type that is not ours is kept
    as it is, for a plug-in's tools."""
    return TYPES.get(kind, text)(given)
