"""Targets: the table, written in each format. CSV, JSON and Parquet by DuckDB itself, Excel and XML row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted
from noetl.tools.convert.sources import compressed, from_utf8
from noetl.tools.convert.tables import DATA, ConvertRequest, Table, TableColumn, TableFile, misfit
from noetl.tools.sql.answers import Allowance, plain

_BATCH_ROWS = 1_000
_EMPTY = {"csv": "", "json": "[]\n", "jsonl": ""}


def read_rows(connection: Any, table: Table, request: ConvertRequest) -> list[dict[str, Any]]:
    """The rows as plain data. Raises ToolError `result.too_large` if they are too many for a result."""
    if not table.columns:
        return []
    allowance = Allowance(request.max_rows)
    names = [column.name for column in table.columns]
    rows: list[dict[str, Any]] = []
    for batch in _batches(connection, table, table.select(), request):
        made = [_plain_row(table.columns, names, values) for values in batch]
        rows += made
        allowance.take(made, len(rows))
    return rows


def write_target(connection: Any, table: Table, target: TableFile, request: ConvertRequest) -> int:
    """Write the target. Returns the number of rows."""
    final = Path(target.path)
    if target.compression == "none" and (target.encoding == "utf-8" or target.format in ("parquet", "excel", "xml")):
        return _write_file(connection, table, target, final, request)
    # DuckDB writes UTF-8 without compression; other forms are converted from that, in the folder of the task.
    plain_file, coded = Path(request.folder) / "written", Path(request.folder) / "written-coded"
    rows = _write_file(connection, table, target, plain_file, request)
    if target.encoding != "utf-8" and target.format != "xml":
        from_utf8(plain_file, coded if target.compression != "none" else final, target)
        plain_file = coded
    if target.compression != "none":
        compressed(plain_file, final, target.compression)
    return rows


def _write_file(connection: Any, table: Table, target: TableFile, path: Path, request: ConvertRequest) -> int:
    names = [column.name for column in table.columns]
    match target.format:
        case "excel":
            from noetl.tools.convert.excel_sheets import write_sheet

            return write_sheet(path, target, names, _rows(connection, table, _for_cells, request))
        case "xml":
            from noetl.tools.convert.xml_records import write_xml

            return write_xml(path, target, names, _rows(connection, table, _for_elements, request))
        case _:
            return _copy_rows(connection, table, target, path, request)


def _copy_rows(connection: Any, table: Table, target: TableFile, path: Path, request: ConvertRequest) -> int:
    if not table.columns:
        if target.format == "parquet":
            raise ToolError(DATA, f"{request.source.name} has no columns: name them, columns: {{name: type}}")
        path.write_text(_EMPTY[target.format])
        return 0
    header = f"HEADER {'true' if target.header else 'false'}, DELIMITER {quoted(target.delimiter or ',')}"
    written, options = {
        "csv": (_for_csv, f"FORMAT csv, {header}"),
        "json": (_for_json, "FORMAT json, ARRAY true"),
        "jsonl": (_for_json, "FORMAT json"),
        "parquet": (_for_parquet, "FORMAT parquet, COMPRESSION zstd"),
    }[target.format]
    query = f"COPY ({table.select(written)}) TO {quoted(str(path))} ({options}, USE_TMP_FILE false)"
    try:
        (count,) = connection.execute(query).fetchone()
    except duckdb.ConversionException as problem:
        raise misfit(connection, table, request.source.name) or problem from None
    return int(count)


def _rows(connection: Any, table: Table, written: Any, request: ConvertRequest) -> Iterator[tuple[Any, ...]]:
    if table.columns:
        for batch in _batches(connection, table, table.select(written), request):
            yield from batch


def _batches(connection: Any, table: Table, query: str, request: ConvertRequest) -> Iterator[list[tuple[Any, ...]]]:
    try:
        cursor = connection.execute(query)
        while batch := cursor.fetchmany(_BATCH_ROWS):
            yield batch
    except duckdb.ConversionException as problem:
        raise misfit(connection, table, request.source.name) or problem from None


def _plain_row(columns: list[TableColumn], names: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    made = {}
    for column, name, value in zip(columns, names, values, strict=True):
        is_json = column.type == "JSON" and isinstance(value, str)
        made[name] = msgspec.json.decode(value) if is_json else plain(value)
    return made


def _time_format(column: TableColumn) -> str | None:
    """The format of a time in RFC 3339."""
    if column.type.startswith("TIMESTAMP"):
        text = f"replace(CAST({column.typed} AS VARCHAR), ' ', 'T')"
        return f"replace({text}, '+00', 'Z')" if "ZONE" in column.type else text
    return None


def _for_csv(column: TableColumn) -> str:
    if column.is_nested:
        return f"CAST(to_json({column.typed}) AS VARCHAR)"
    if column.type == "BLOB":
        return f"base64({column.typed})"
    return _time_format(column) or column.typed


def _for_json(column: TableColumn) -> str:
    """Values that JSON numbers would round become text; values without a JSON number become null."""
    if column.type == "BLOB":
        return f"base64({column.typed})"
    if _is_rounded(column):
        return f"CAST({column.typed} AS VARCHAR)"
    if column.type in ("DOUBLE", "FLOAT"):
        return f"CASE WHEN isfinite({column.typed}) THEN {column.typed} END"
    return _time_format(column) or column.typed


def _for_parquet(column: TableColumn) -> str:
    # Parquet has no integers of 128 bits, and DuckDB would write them as floating point numbers
    return f"CAST({column.typed} AS VARCHAR)" if column.type in ("HUGEINT", "UHUGEINT") else column.typed


def _for_cells(column: TableColumn) -> str:
    if column.is_nested or column.type == "BLOB" or "ZONE" in column.type:
        return _for_csv(column)
    is_text = column.type in ("INTERVAL", "UUID", "JSON") or _is_rounded(column)
    return f"CAST({column.typed} AS VARCHAR)" if is_text else column.typed


def _for_elements(column: TableColumn) -> str:
    return _time_format(column) or column.typed


def _is_rounded(column: TableColumn) -> bool:
    """Whether a floating point number cannot hold all values of the type."""
    digits = column.type.removeprefix("DECIMAL(").partition(",")[0]
    return column.type in ("HUGEINT", "UHUGEINT") or (digits.isdecimal() and int(digits) > 15)
