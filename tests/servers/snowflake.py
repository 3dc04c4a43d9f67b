"""Drivers of databases that cannot be started here, in an environment of their own; and fakesnow, an emulator."""

from __future__ import annotations

from functools import cache
from typing import Any

from noetl.tools.child_process import Program
from tests.servers.environments import python_environment
from tests.servers.programs import PORT, ServedProgram

_PACKAGES = (
    *("sqlalchemy<2.1", "msgspec", "jinja2", "pymysql==1.2.4", "fakesnow[server]==0.12.1"),
    *("snowflake-connector-python==4.8.1", "snowflake-sqlalchemy==1.11.1", "sqlalchemy-pytds==1.0.3"),
    *("oracledb==26.1.0", "clickhouse-connect==1.12.0", "trino==0.340.0"),
    *("databricks-sqlalchemy==2.0.10", "sqlalchemy-redshift==1.0.0", "redshift-connector"),
)


def drivers_python() -> str:
    """The interpreter of an environment with every driver."""
    return str(python_environment("sql-drivers", *_PACKAGES) / "python")


def drivers_program() -> Program:
    """The child of the `sql` tool, with those drivers."""
    return Program(module="noetl.tools.sql.child", name="SQL", error="sql.error", python=drivers_python())


@cache
def fakesnow() -> ServedProgram:
    programs = python_environment("sql-drivers", *_PACKAGES)
    return ServedProgram([str(programs / "fakesnow"), "-s", "-p", PORT])


def snowflake_auth() -> dict[str, Any]:
    where = {"host": "127.0.0.1", "port": fakesnow().port, "protocol": "http"}
    return {"dialect": "snowflake", "account": "fakesnow", "user": "fake", "password": "a secret word", **where}


# fakesnow takes every login; a stand-in with this answer refuses one as Snowflake does.
LOGIN_REFUSED = {
    "data": None,
    "code": "390100",
    "message": "Incorrect username or password was specified.",
    "success": False,
}
