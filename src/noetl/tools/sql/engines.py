"""Engines, in the child: one connection per database, kept for the next call of the same execution, and statements as
its driver takes them.
"""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import URL, Dialect, Engine

from noetl.tools.sql.dialects import DIALECTS, Connection

_CONNECT_S = 15
# Standard quoting, by which templates were bound: a backslash is an ordinary character, and "…" is a name.
_MYSQL_MODES = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES,NO_BACKSLASH_ESCAPES')"
# ATTACH would open any file that the worker can, regardless of the data folders.
_DENIED = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})
# `fts3_tokenizer` takes a memory address as a bound value and calls the code there. The pragmas change the schema
# behind SQLite's back, and write temporary files into any folder.
_DENIED_NAMES = frozenset({"fts3_tokenizer", "writable_schema", "temp_store_directory", "data_store_directory"})


def engine_of(connection: Connection) -> Engine:
    """The engine of a connection, created once."""
    return _engine(msgspec.json.encode(connection))


@lru_cache(maxsize=8)
def _engine(encoded: bytes) -> Engine:
    connection = msgspec.json.decode(encoded, type=Connection)
    url, arguments = _address(connection)
    # Ping first: a connection that the server has closed between two tasks is replaced instead of failing the next
    # one. Parameters stay out of messages, since they may be secrets.
    engine = sqlalchemy.create_engine(
        url, connect_args=arguments, pool_pre_ping=True, hide_parameters=True, **_pool(connection)
    )
    if connection.dialect == "mysql":
        event.listen(engine, "connect", _set_mysql_modes)
    if connection.dialect == "sqlite":
        event.listen(engine, "connect", _confine_sqlite)
    return engine


def _pool(connection: Connection) -> dict[str, Any]:
    if connection.dialect == "sqlite":
        return {"poolclass": sqlalchemy.NullPool}  # a database in memory lives as long as its task
    return {"pool_size": 1, "max_overflow": 0}


def _address(connection: Connection) -> tuple[URL, dict[str, Any]]:
    """The URL of a connection, and further arguments for its driver."""
    options, arguments = dict(connection.options), dict[str, Any]()
    dialect = DIALECTS[connection.dialect]
    host, port, query = connection.host, connection.port or None, dict[str, str]()
    match connection.dialect:
        case "mysql":
            arguments = {
                "connect_timeout": _CONNECT_S,
                # A server could otherwise ask for any file that this process can read.
                "local_infile": False,
                "charset": options.get("charset", "utf8mb4"),
            }
            if options.get("ssl") or options.get("ssl_ca_pem"):
                arguments["ssl"] = _tls(options)
        case "sqlserver":
            arguments = {"login_timeout": _CONNECT_S}
        case "snowflake":
            arguments = {name: options[name] for name in ("host", "port", "protocol") if name in options}
            arguments |= {"login_timeout": _CONNECT_S * 4, "network_timeout": _CONNECT_S * 20}
            arguments["platform_detection_timeout_seconds"] = 0  # it asks the metadata address, which is blocked
            query = {name: str(options[name]) for name in ("warehouse", "role") if name in options}
            port = None
        case "databricks":
            query = {name: str(options[name]) for name in ("http_path", "catalog", "schema") if name in options}
        case "trino":
            arguments = {"http_scheme": options.get("http_scheme", "https")}
        case "clickhouse":
            query = {"secure": str(options.get("secure", True)).lower()}
    database = connection.database
    if connection.dialect in ("snowflake", "trino") and options.get("schema"):
        database = f"{database}/{options['schema']}"
    url = URL.create(
        dialect.driver,
        username=connection.user or None,
        password=connection.password or None,
        host=host or None,
        port=port,
        database=database or None,
        query=query,
    )
    return url, arguments


def _tls(options: dict[str, Any]) -> Any:
    import ssl

    return ssl.create_default_context(cadata=options.get("ssl_ca_pem"))


def _set_mysql_modes(driver_connection: Any, _: Any) -> None:
    with driver_connection.cursor() as cursor:
        cursor.execute(_MYSQL_MODES)


def _confine_sqlite(driver_connection: Any, _: Any) -> None:
    """No other file but the database itself, and no memory but SQLite's own."""

    def judge(action: int, first: str | None, second: str | None, *_: Any) -> int:
        # SQLite gives the name of a function second, and that of a pragma first.
        name = second if action == sqlite3.SQLITE_FUNCTION else first if action == sqlite3.SQLITE_PRAGMA else None
        is_denied = action in _DENIED or (name or "").lower() in _DENIED_NAMES
        return sqlite3.SQLITE_DENY if is_denied else sqlite3.SQLITE_OK

    driver_connection.set_authorizer(judge)


# Rendering, in the child: a statement as the driver takes it, with its values beside it, never in it.

_ROWLESS = "SELECT NULL FROM (SELECT 1 AS one) noetl_empty WHERE 1 = 0"
_ROWLESS_ORACLE = "SELECT NULL FROM dual WHERE 1 = 0"


def rendered(parts: list[Any], dialect: Dialect) -> tuple[str, Any]:
    """The text of a statement and its values, in the dialect's own way of writing parameters."""
    texts: list[str] = []
    values: list[Any] = []
    opened = ""
    for part in parts:
        if isinstance(part, str):
            texts.append(_escaped_text(part, dialect))
        elif "list" in part:
            opened = part["list"]
            texts.append("IN (" if opened == "any" else "NOT IN (")
        else:
            items = part["value"] if opened and isinstance(part["value"], list) else [part["value"]]
            texts.append(_placeholders(items, values, dialect))
            opened = ""
    return "".join(texts), _arguments(values, dialect)


def _placeholders(items: list[Any], values: list[Any], dialect: Dialect) -> str:
    """One placeholder for each item. An empty list becomes a query without rows: nothing is in it, and everything is
    not in it."""
    if not items:
        return _ROWLESS_ORACLE if dialect.name == "oracle" else _ROWLESS
    written = []
    for item in items:
        values.append(_plain_parameter(item))
        written.append(placeholder(len(values), dialect))
    return ", ".join(written)


def placeholder(number: int, dialect: Dialect) -> str:
    """The placeholder for the parameter with this number, counted from one."""
    match dialect.paramstyle:
        case "qmark":
            return "?"
        case "format":
            return "%s"
        case "pyformat":
            return f"%(p{number})s"
        case "named":
            return f":p{number}"
        case "numeric_dollar":
            return f"${number}"
        case _:
            return f":{number}"


def _escaped_text(text: str, dialect: Dialect) -> str:
    return text.replace("%", "%%") if dialect.paramstyle in ("format", "pyformat") else text


def _arguments(values: list[Any], dialect: Dialect) -> Any:
    if dialect.paramstyle in ("pyformat", "named"):
        return {f"p{number}": value for number, value in enumerate(values, 1)}
    return tuple(values)


def _plain_parameter(value: Any) -> Any:
    """Mappings and lists are sent as JSON text, which every JSON column accepts."""
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def row_arguments(row: list[Any], dialect: Dialect) -> Any:
    """The values of one row of an insertion."""
    return _arguments([_plain_parameter(value) for value in row], dialect)
