"""Rows of a query as a table: PostgreSQL writes them as CSV (COPY), which goes to a file as it comes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.sql.requests import Insertion, conflict_clause, quoted_name
from noetl.tools.tables.files import BYTES, DECIMAL, NULL, TypedColumn, unique_names
from noetl.tools.tables.loads import RowLoad
from noetl.tools.tables.stored import MAX_BYTES

_LOADED = "noetl_loaded_rows"

# PostgreSQL's types by DuckDB's; all others (arrays, ranges, intervals, enums, …) are text as PostgreSQL writes it,
# which it also reads again.
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
# How values are written must not depend on what the role or the database has set.
_AS_WRITTEN = (
    "SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'; "
    "SET LOCAL intervalstyle = 'iso_8601'; SET LOCAL extra_float_digits = 1"
)


async def copy_rows(connection: Any, prepared: Any, values: list[Any], csv: Path) -> tuple[list[TypedColumn], int]:
    """Write the rows of a prepared query to a file, within the transaction that is open. Returns their columns and
    number."""
    attributes = prepared.get_attributes()
    if not attributes:
        raise ToolError("sql.input", "spec.rows: parquet keeps the rows of the last statement, which gives none")
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
    """Load a file within the transaction that is open."""
    names = ", ".join(map(quoted_name, load.columns))
    if load.empties:
        await connection.execute(f"DELETE FROM {load.table}")  # noqa: S608  a checked name
    *schema, table = (part.replace('""', '"') for part in re.findall(r'"((?:[^"]|"")*)"', load.table))
    if load.key:
        # Rows that are there are known only to an INSERT: COPY would fail on the first of them.
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
    """A file that takes so much and no more: a query without a condition may give all that a server has."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, MAX_BYTES

    async def write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise ToolError("result.too_large", f"the rows are more than {MAX_BYTES >> 30} GiB as text")
        self._file.write(data)
