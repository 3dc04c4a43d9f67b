"""One conversion, in the child: the source as a view, its columns with types, the target written from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted
from noetl.tools.convert.column_types import detected_types
from noetl.tools.convert.request import Column, Converted, ConvertRequest
from noetl.tools.convert.sources import SourceView, opened_source
from noetl.tools.convert.tables import Table, TableColumn, named
from noetl.tools.convert.targets import read_rows, write_target
from noetl.tools.duckdb.sandboxed_connection import connected
from noetl.tools.file_ends import checksum_of

_OPTIONAL = ("json", "jsonl", "xml")  # a record need not have every field


def converted(request: ConvertRequest) -> Converted:
    """What came of a request. ToolError, or what a library raises, says why there is nothing."""
    connection = _connected(request)
    try:
        source = opened_source(connection, request)
        table = _table(connection, source, request)
        columns = [{"name": column.name, "type": column.type} for column in table.columns]
        if request.target is None:
            rows = read_rows(connection, table, request)
            return Converted(row_count=len(rows), columns=columns, rows=rows)
        count = write_target(connection, table, request.target, request)
    finally:
        connection.close()
    size, checksum = checksum_of(Path(request.target.path))
    return Converted(row_count=count, columns=columns, size=size, checksum=checksum)


def _connected(request: ConvertRequest) -> Any:
    """A DuckDB that reaches the folder of the task, the source and the target, and nothing else."""
    targets = [request.target.path] if request.target is not None else []
    folder = str(Path(request.folder) / "spill")
    call = {"memory_bytes": request.memory_bytes, "threads": request.threads, "attach": None, "database": None}
    return connected(call | {"folders": [request.folder], "files": [request.source.path, *targets], "spill": folder})


def _table(connection: Any, source: SourceView, request: ConvertRequest) -> Table:
    """The columns as the target has them: those of the task, else all; their types from the task, the source, or what
    all values of a column are written as."""
    wanted = request.columns
    if wanted is None:
        wanted = [Column(name=name, source=name) for name, _ in source.columns]
    found = {name.lower(): (name, kind) for name, kind in source.columns}
    if source.detection is not None:
        asked = {column.source.lower() for column in wanted if column.type is None}
        texts = [name for name, kind in source.columns if kind == "VARCHAR" and name.lower() in asked]
        detected = detected_types(connection, source.view, texts, only_moments=source.detection == "moments")
        found |= {name.lower(): (name, kind) for name, kind in detected.items()}
    columns = [_column(connection, column, found, source, request) for column in wanted]
    return Table(view=source.view, columns=columns)


def _column(
    connection: Any, wanted: Column, found: dict[str, tuple[str, str]], source: SourceView, request: ConvertRequest
) -> TableColumn:
    known = found.get(wanted.source.lower())
    if known is None and (request.source.format not in _OPTIONAL or wanted.type is None) and source.columns:
        there = ", ".join(f'"{name}"' for name, _ in source.columns[:50])
        raise ToolError(
            "convert.input",
            f'{request.source.name} has no column "{wanted.source}"; it has {there}',
            column=wanted.source,
        )
    kind = _type(connection, wanted) if wanted.type is not None else known[1] if known is not None else "VARCHAR"
    if known is None:
        return TableColumn(name=wanted.name, type=kind, value="NULL")
    value = named(known[0])
    own = dict(source.columns)[known[0]]
    return TableColumn(name=wanted.name, type=kind, value=value, is_cast=own != kind)


def _type(connection: Any, wanted: Column) -> str:
    try:
        kind = str(duckdb.sqltype(wanted.type or "", connection=connection))
        connection.execute(f"SELECT CAST(NULL AS {kind})")
    except (duckdb.Error, RuntimeError, ValueError):
        raise ToolError(
            "convert.input",
            f'columns gives "{wanted.name}" the type {quoted(wanted.type or "")}, which DuckDB does not know: '
            "write BIGINT, DOUBLE, DECIMAL(18,2), BOOLEAN, VARCHAR, DATE, TIMESTAMP, TIMESTAMPTZ, …",
        ) from None
    return kind
