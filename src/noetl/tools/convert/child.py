"""The child process of the `convert` tool: one conversion for each call, as JSON over pipes. It opens the source as a
view, determines the types of its columns, and writes the target from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted
from noetl.tools.child_pipes import error_answer, serve_calls
from noetl.tools.convert.sources import SourceView, opened_source
from noetl.tools.convert.tables import Column, Converted, ConvertRequest, Table, TableColumn, named, problem_of
from noetl.tools.convert.targets import read_rows, write_target
from noetl.tools.duckdb.sandboxed_connection import locked_connection
from noetl.tools.files import flushed_checksum

# One conversion, in the child: the source as a view, its columns with types, the target written from it.

_OPTIONAL = ("json", "jsonl", "xml")  # a record need not have every field


def converted(request: ConvertRequest) -> Converted:
    """The result of a request. Raises ToolError, or an error of a library."""
    connection = _connection_for(request)
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
    size, checksum = flushed_checksum(Path(request.target.path))
    return Converted(row_count=count, columns=columns, size=size, checksum=checksum)


def _connection_for(request: ConvertRequest) -> Any:
    """A DuckDB connection that can open only the folder of the task, the source and the target."""
    targets = [request.target.path] if request.target is not None else []
    folder = str(Path(request.folder) / "spill")
    call = {"memory_bytes": request.memory_bytes, "threads": request.threads, "attach": None, "database": None}
    return locked_connection(
        call | {"folders": [request.folder], "files": [request.source.path, *targets], "spill": folder}
    )


def _table(connection: Any, source: SourceView, request: ConvertRequest) -> Table:
    """The columns of the target: those that the task names, else all. Their types come from the task, from the source,
    or from the way that all values of a column are written."""
    wanted = request.columns
    if wanted is None:
        wanted = [Column(name=name, source=name) for name, _ in source.columns]
    found = {name.lower(): (name, kind) for name, kind in source.columns}
    read_as = dict(source.columns)
    if source.detection is not None:
        asked = {column.source.lower() for column in wanted if column.type is None}
        texts = [name for name, kind in source.columns if kind == "VARCHAR" and name.lower() in asked]
        detected = detected_types(connection, source.view, texts, only_moments=source.detection == "moments")
        found |= {name.lower(): (name, kind) for name, kind in detected.items()}
    columns = [_column(connection, column, found, source, request, read_as) for column in wanted]
    return Table(view=source.view, columns=columns)


def _column(
    connection: Any,
    wanted: Column,
    found: Mapping[str, tuple[str, str]],
    source: SourceView,
    request: ConvertRequest,
    read_as: Mapping[str, str],
) -> TableColumn:
    """A column of the target. `found` are the detected types of the columns by their names in lower case; `read_as` are
    those of the view."""
    known = found.get(wanted.source.lower())
    if known is None and (request.source.format not in _OPTIONAL or wanted.type is None) and source.columns:
        columns = ", ".join(f'"{name}"' for name, _ in source.columns[:50])
        raise ToolError(
            "convert.input",
            f'{request.source.name} has no column "{wanted.source}"; it has {columns}',
            column=wanted.source,
        )
    kind = _type(connection, wanted) if wanted.type is not None else known[1] if known is not None else "VARCHAR"
    if known is None:
        return TableColumn(name=wanted.name, type=kind, value="NULL")
    value = named(known[0])
    return TableColumn(name=wanted.name, type=kind, value=value, is_cast=read_as[known[0]] != kind)


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


# Types of columns that came as text: a column has a type if every value in it is written that way.
# Nothing is lost by it: "007" and "1.0.0" stay text, 12345678901234567890 and 0.10 are exact decimals. A sample
# proposes a type, and the whole column confirms it; so a file is read twice, and no row after the sample is a
# surprise.
SAMPLE_ROWS = 10_000
_DIGITS = 38  # of a DECIMAL
_MOMENT = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
# No leading zeros: "007" is a code, not the number seven.
_DECIMAL = "-?(0|[1-9][0-9]*)([.][0-9]+)?"
# In this order: the first matching type is used. {} is the column.
_TESTS = {
    "BOOLEAN": "lower({0}) IN ('true', 'false')",
    "BIGINT": "regexp_full_match({0}, '0|-?[1-9][0-9]{{0,18}}') AND TRY_CAST({0} AS BIGINT) IS NOT NULL",
    "DECIMAL": f"regexp_full_match({{0}}, '{_DECIMAL.replace('{', '{{').replace('}', '}}')}') AND length({{0}}) <= 40",
    "DOUBLE": "regexp_full_match({0}, '-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]{{1,3}})?') "
    "AND isfinite(TRY_CAST({0} AS DOUBLE)) "
    "AND length(regexp_replace(split_part(lower({0}), 'e', 1), '[^0-9]', '', 'g')) <= 17",  # the range of a DOUBLE
    "DATE": "regexp_full_match({0}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}') AND TRY_CAST({0} AS DATE) IS NOT NULL",
    "TIMESTAMP": f"regexp_full_match({{0}}, '{_MOMENT.replace('{', '{{').replace('}', '}}')}') "
    "AND TRY_CAST({0} AS TIMESTAMP) IS NOT NULL",
    "TIMESTAMP WITH TIME ZONE": f"regexp_full_match({{0}}, '{_MOMENT.replace('{', '{{').replace('}', '}}')}"
    "(Z|[+-][0-9]{{2}}(:[0-9]{{2}})?)') AND TRY_CAST({0} AS TIMESTAMPTZ) IS NOT NULL",
}
_MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def detected_types(connection: Any, view: str, names: list[str], *, only_moments: bool) -> dict[str, str]:
    """The type of each column, VARCHAR where there is no better one."""
    if not names:
        return {}
    tried = _MOMENTS if only_moments else tuple(_TESTS)
    columns = ", ".join(map(named, names))
    connection.execute(f"CREATE TEMP TABLE sample AS SELECT {columns} FROM {view} LIMIT {SAMPLE_ROWS + 1}")  # noqa: S608
    (count,) = connection.execute("SELECT count(*) FROM sample").fetchone()
    found = _types(connection, "sample", dict.fromkeys(names, tried))
    connection.execute("DROP TABLE sample")
    # The query asked for one row more than the sample has, and it exists: some rows are not in the sample.
    if count > SAMPLE_ROWS:
        # A column that is empty so far may still have any type.
        proposed = {name: (kind.partition("(")[0],) if kind else tried for name, kind in found.items()}
        found |= _types(connection, view, {name: kinds for name, kinds in proposed.items() if kinds != ("VARCHAR",)})
        # The rest of the column refutes this type: all other types are tried on the whole column.
        wrong = {name: tried for name, kinds in proposed.items() if found[name] == "VARCHAR" and kinds != ("VARCHAR",)}
        found |= _types(connection, view, {name: kinds for name, kinds in wrong.items() if proposed[name] != tried})
    return {name: kind or "VARCHAR" for name, kind in found.items()}


def _types(connection: Any, view: str, tests: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """For each column the first type that fits all its values; None for a column without values."""
    if not tests:
        return {}
    counts = [_counts(named(name), tried) for name, tried in tests.items()]
    row = list(connection.execute(f"SELECT {', '.join(counts)} FROM {view}").fetchone())  # noqa: S608
    made = {}
    for name, tried in tests.items():
        count, whole, scale, *fitting = row[: 3 + len(tried)]
        del row[: 3 + len(tried)]
        fits = [kind for kind, number in zip(tried, fitting, strict=True) if number == count]
        exact = next((kind for each in fits if (kind := _exact(each, whole or 1, scale or 0))), "VARCHAR")
        made[name] = exact if count else ""
    return made


def _counts(column: str, tried: tuple[str, ...]) -> str:
    fits = [f"count(*) FILTER (WHERE {_TESTS[kind].format(column)})" for kind in tried]
    if "DECIMAL" not in tried:
        return ", ".join([f"count({column})", "0", "0", *fits])
    plain = f"FILTER (WHERE {_TESTS['DECIMAL'].format(column)})"
    whole = f"max(length(ltrim(split_part({column}, '.', 1), '-'))) {plain}"
    return ", ".join([f"count({column})", whole, f"max(length(split_part({column}, '.', 2))) {plain}", *fits])


def _exact(kind: str, whole: int, scale: int) -> str | None:
    if kind != "DECIMAL":
        return kind
    return f"DECIMAL({whole + scale},{scale})" if whole + scale <= _DIGITS else None


def serve() -> None:
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, ConvertRequest)
    try:
        return msgspec.json.encode({"result": converted(request)})
    except ToolError as problem:
        return error_answer(problem)
    except (duckdb.Error, MemoryError, OSError, UnicodeError) as problem:
        return error_answer(problem_of(problem, request))
    except Exception as problem:
        return error_answer(ToolError("convert.error", f"{type(problem).__name__}: {problem}"))
