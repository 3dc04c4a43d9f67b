"""Dialects: the databases that the `sql` tool speaks to, their drivers, and how each reads quotes. Also one connection,
as the parent tells it to its child process.

All drivers are pure Python where it concerns the network, so that the address policy holds for them.
"""

from __future__ import annotations

from typing import Any

import msgspec


class SqlDialect(msgspec.Struct, frozen=True, kw_only=True):
    """One database. Its rules for quotes and comments matter: the lexer of SQL templates must split text exactly as the
    database does, or a value could leave its quotes."""

    name: str
    driver: str  # SQLAlchemy's name
    module: str  # the module to import
    extra: str  # the extra that installs it
    port: int = 0
    backslashes: bool = False  # a backslash in quoted text is an escape, and no setting turns that off
    backticks: bool = False  # names are quoted with backticks
    hash_comments: bool = False  # `#` begins a comment
    upsert: str = "merge"  # how rows that exist are replaced


_ALL = (
    SqlDialect(name="sqlite", driver="sqlite", module="sqlalchemy", extra="sql", upsert="conflict"),
    SqlDialect(
        name="mysql",
        driver="mysql+pymysql",
        module="pymysql",
        extra="mysql",
        port=3306,
        backticks=True,
        hash_comments=True,
        upsert="duplicate",
    ),
    SqlDialect(name="sqlserver", driver="mssql+pytds", module="sqlalchemy_pytds", extra="sqlserver", port=1433),
    SqlDialect(name="oracle", driver="oracle+oracledb", module="oracledb", extra="oracle", port=1521),
    SqlDialect(
        name="snowflake", driver="snowflake", module="snowflake.sqlalchemy", extra="snowflake", backslashes=True
    ),
    SqlDialect(
        name="clickhouse",
        driver="clickhousedb+connect",
        module="clickhouse_connect",
        extra="clickhouse",
        port=8443,
        backslashes=True,
        backticks=True,
        hash_comments=True,
        upsert="none",
    ),
    SqlDialect(name="trino", driver="trino", module="trino", extra="trino", port=443),
    SqlDialect(
        name="redshift",
        driver="redshift+redshift_connector",
        module="redshift_connector",
        extra="redshift",
        port=5439,
        backslashes=True,
    ),
    SqlDialect(
        name="databricks",
        driver="databricks",
        module="databricks.sqlalchemy",
        extra="databricks",
        port=443,
        backslashes=True,
        backticks=True,
    ),
)
DIALECTS = {dialect.name: dialect for dialect in _ALL}
ALIASES = {"mariadb": "mysql", "mssql": "sqlserver", "clickhousedb": "clickhouse"}


def dialect_named(name: str) -> SqlDialect | None:
    """The dialect of a URL's scheme (`mysql`, `mysql+pymysql`, `mariadb`) or of a credential's field."""
    plain = name.lower().partition("+")[0]
    return DIALECTS.get(ALIASES.get(plain, plain))


# Connection: one database and role, in the form that the parent sends to its child process.


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One database and role. Shown without its password."""

    dialect: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    database: str = ""
    options: dict[str, Any] = {}

    def __str__(self) -> str:
        where = f" at {self.host}" if self.host else ""
        return f'{self.dialect} database "{self.database}"{where}'

    __repr__ = __str__
