"""The statements of one task on one connection, in one transaction or one by one (TOOL-05). Also queries whose rows
become a table, and loads of files."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import Bound, Statement, quoted_name
from noetl.tools.postgres.parameters import Typed, row_of, shares_templates
from noetl.tools.postgres.pools import pg_error
from noetl.tools.sql.answers import Allowance, SqlAnswer
from noetl.tools.sql.requests import Insertion, conflict_clause
from noetl.tools.table_files import MAX_BYTES, RowLoad
from noetl.tools.table_sql import BYTES, DECIMAL, NULL, TypedColumn, unique_names

# Rows are fetched through a cursor in pieces of this size, so that the bounds on rows and bytes are checked before all
# of them are in memory.
BATCH_ROWS = 500
GRACE_S = 2.0  # the server cancels a statement this long after its timeout, in case the worker is gone
_ISOLATION = ("read_committed", "read_uncommitted", "repeatable_read", "serializable")
_COMPARING = frozenset({"GROUP", "DISTINCT", "ORDER"})
# GROUP BY that lacks a column; ORDER BY or DISTINCT ON that does not match the select list
_DIFFERENT_EXPRESSIONS = frozenset({"42803", "42P10"})
_STREAMS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE"})
_LOADED = "noetl_loaded_rows"
# DuckDB's type for each type of PostgreSQL. All others (arrays, ranges, intervals, enums, …) are text in PostgreSQL's
# format, which it can also read.
_TYPES = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "oid": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": DECIMAL,
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "uuid": "UUID",
    "json": "JSON",
    "jsonb": "JSON",
    "bytea": BYTES,
}
# The text format of values must not depend on settings of the role or the database.
_AS_WRITTEN = (
    "SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'; "
    "SET LOCAL intervalstyle = 'iso_8601'; SET LOCAL extra_float_digits = 1"
)


class PostgresSession:
    """Runs the statements of one task on its connection."""

    def __init__(self, connection: Any, spec: Mapping[str, Any], timeout_s: float | None) -> None:
        self._connection = connection
        self._isolation = _isolation(spec.get("isolation"))
        self._timeout_ms = int((timeout_s + GRACE_S) * 1000) if timeout_s is not None else 0
        self._allowance = Allowance(spec.get("max_rows"))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction with the isolation level and the timeout of the task."""
        async with self._connection.transaction(isolation=self._isolation):
            await self._connection.execute(f"SET LOCAL statement_timeout = {self._timeout_ms}")
            yield

    async def run(self, bound: Bound) -> list[SqlAnswer]:
        """Run statements in the open transaction."""
        return [await self._answer(statement) for statement in bound.statements]

    async def copy_last(self, bound: Bound, csv: Path) -> tuple[list[TypedColumn], int]:
        """Run statements in the open transaction and write the rows of the last one to a file. Returns their columns
        and number."""
        *before, last = bound.statements
        for statement in before:
            await self._answer(statement)
        prepared, values = await self._prepared_statement(last)
        return await copy_rows(self._connection, prepared, values, csv)

    async def load(self, load: RowLoad) -> None:
        """Load a file and run the statements that follow, in one transaction."""
        async with self.transaction():
            await load_rows(self._connection, load)
            await self.run(Bound(load.then))

    async def run_singly(self, bound: Bound) -> list[SqlAnswer]:
        """Run statements one by one, or in the transactions that the SQL begins itself."""
        connection = self._connection
        await connection.execute(f"SET statement_timeout = {self._timeout_ms}")  # the pool resets it
        answers = []
        for statement in bound.statements:
            if statement.keyword in _STREAMS and not connection.is_in_transaction():
                async with connection.transaction(isolation=self._isolation):
                    answers.append(await self._answer(statement))
            else:
                answers.append(await self._run_alone(statement))
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK")
            raise pg_error("the SQL begins a transaction and does not end it, so it was rolled back")
        return answers

    async def _answer(self, statement: Statement) -> SqlAnswer:
        prepared, values = await self._prepared_statement(statement)
        columns = [attribute.name for attribute in prepared.get_attributes()]
        if not columns:
            await prepared.fetch(*values)
            return SqlAnswer([], [], _row_count(prepared.get_statusmsg()))
        rows: list[dict[str, Any]] = []
        cursor = await prepared.cursor(*values)
        while batch := await cursor.fetch(BATCH_ROWS):
            found = [row_of(record) for record in batch]
            rows += found
            self._allowance.take(found, len(rows))
        return SqlAnswer(rows, columns, len(rows))

    async def _run_alone(self, statement: Statement) -> SqlAnswer:
        """Run a statement outside of a transaction of ours. Without a transaction there is no cursor: all rows come at
        once."""
        prepared, values = await self._prepared_statement(statement)
        columns = [attribute.name for attribute in prepared.get_attributes()]
        rows = [row_of(record) for record in await prepared.fetch(*values)]
        self._allowance.take(rows, len(rows))
        return SqlAnswer(rows, columns, len(rows) if columns else _row_count(prepared.get_statusmsg()))

    async def _prepared_statement(self, statement: Statement) -> tuple[Any, list[Any]]:
        if not (shares_templates(statement) and _compares_expressions(statement)):
            return await self._prepared_as(Typed(statement))
        # Each template is a parameter of its own, so the server sees equal expressions as different ones and may refuse
        # GROUP BY or ORDER BY. Then the statement is prepared again with shared parameters.
        try:
            async with self._attempt():
                return await self._prepared_as(Typed(statement))
        except asyncpg.PostgresError as problem:
            if problem.sqlstate not in _DIFFERENT_EXPRESSIONS:
                raise
        return await self._prepared_as(Typed(statement, shared=True))

    @asynccontextmanager
    async def _attempt(self) -> AsyncIterator[None]:
        """A savepoint in an open transaction: a failure inside leaves the transaction usable."""
        if not self._connection.is_in_transaction():
            yield
            return
        async with self._connection.transaction():
            yield

    async def _prepared_as(self, typed: Typed) -> tuple[Any, list[Any]]:
        prepared = await self._connection.prepare(typed.text)
        # The first preparation only asks the server which types it expects; the text with casts is prepared again.
        if typed.ask(prepared.get_parameters()):
            prepared = await self._connection.prepare(typed.text)
        return prepared, typed.values


def _compares_expressions(statement: Statement) -> bool:
    """Whether the server compares expressions in two places of the statement."""
    return any(isinstance(part, str) and part.upper() in _COMPARING for part in statement.parts)


def _row_count(status: str | None) -> int:
    """The number of rows in a command tag such as `INSERT 0 5`."""
    last = (status or "").rpartition(" ")[2]
    return int(last) if last.isdigit() else 0


def _isolation(written: Any) -> str | None:
    if written is None:
        return None
    level = re.sub(r"[\s-]+", "_", str(written).strip().lower())
    if level not in _ISOLATION:
        allowed = ", ".join(_ISOLATION)
        raise ToolError("sql.input", f'spec.isolation "{written}" is not an isolation level: {allowed}')
    return level


# Rows of a query as a table: PostgreSQL writes CSV (COPY), which streams to a file.


async def copy_rows(connection: Any, prepared: Any, values: list[Any], csv: Path) -> tuple[list[TypedColumn], int]:
    """Write the rows of a prepared query to a file, in the open transaction. Returns their columns and number."""
    attributes = prepared.get_attributes()
    if not attributes:
        raise ToolError("sql.input", "spec.rows: parquet keeps the rows of the last statement, which returns none")
    await connection.execute(_AS_WRITTEN)
    with csv.open("wb") as file:
        status = await connection.copy_from_query(
            prepared.get_query(), *values, output=_Bounded(file).write, format="csv", null=NULL, encoding="utf-8"
        )
    names = unique_names([attribute.name for attribute in attributes])
    types = [_TYPES.get(attribute.type.name, "VARCHAR") for attribute in attributes]
    found = re.search(r"\d+", status or "")
    return [TypedColumn(*one) for one in zip(names, types, strict=True)], int(found[0]) if found else 0


async def load_rows(connection: Any, load: RowLoad) -> None:
    """Load a file in the open transaction."""
    names = ", ".join(map(quoted_name, load.columns))
    if load.empties:
        await connection.execute(f"DELETE FROM {load.table}")  # noqa: S608  a checked name
    *schema, table = (part.replace('""', '"') for part in re.findall(r'"((?:[^"]|"")*)"', load.table))
    if load.key:
        # Only an INSERT can update existing rows; COPY would fail on the first of them.
        schema, table = [], _LOADED
        await connection.execute(
            f"CREATE TEMP TABLE {_LOADED} ON COMMIT DROP AS SELECT {names} FROM {load.table} WITH NO DATA"  # noqa: S608
        )
    options = {"columns": list(load.columns), "format": "csv", "null": NULL, "encoding": "utf-8"}
    await connection.copy_to_table(table, schema_name=schema[0] if schema else None, source=load.file, **options)
    if load.key:
        clause = conflict_clause(Insertion(load.table, "", (), load.key), list(load.columns))
        await connection.execute(
            f"INSERT INTO {load.table} ({names}) SELECT {names} FROM {_LOADED}{clause}"  # noqa: S608  quoted names
        )


class _Bounded:
    """A file with a size limit: a query without a condition may return a whole database."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, MAX_BYTES

    async def write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise ToolError("result.too_large", f"the rows are more than {MAX_BYTES >> 30} GiB as text")
        self._file.write(data)
