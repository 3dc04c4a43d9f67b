"""The child process of the `sql` tool: reads calls, runs their SQL, writes answers, as JSON over pipes.

`RowFile` writes rows as CSV. Most drivers do not tell the type of a column, and some databases have none, so the values
decide: all of them, since a type that only fits the first thousand rows would fail on the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import error_answer, serve_calls
from noetl.tools.guarded_sockets import GuardedSockets
from noetl.tools.sql.answers import Allowance, SqlAnswer, check_rows, plain
from noetl.tools.sql.dialects import Connection, dialect_named
from noetl.tools.sql.engines import engine_of, placeholder, rendered, row_arguments
from noetl.tools.table_files import MAX_BYTES
from noetl.tools.table_sql import BYTES, DECIMAL, NULL, TypedColumn, unique_names

# DuckDB's BIGINT ends here; a column with a larger integer is a decimal.
_LARGEST = 1 << 63
_AWARE, _LONG = "aware", "long"  # a time with its zone, an integer past 64 bits
_TYPES: dict[frozenset[Any], str] = {
    frozenset({bool}): "BOOLEAN",
    frozenset({int}): "BIGINT",
    frozenset({float}): "DOUBLE",
    frozenset({int, float}): "DOUBLE",
    frozenset({datetime}): "TIMESTAMP",
    frozenset({_AWARE}): "TIMESTAMP WITH TIME ZONE",
    frozenset({date}): "DATE",
    frozenset({time}): "TIME",
    frozenset({UUID}): "UUID",
    frozenset({bytes}): BYTES,
}
_EXACT = frozenset({int, _LONG, Decimal})


class RowFile:
    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._file = path.open("w", encoding="utf-8", newline="", buffering=1 << 20)
        self._names = unique_names(names)
        self._seen: list[set[Any]] = [set() for _ in names]
        self._left, self.row_count = MAX_BYTES, 0

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        lines = [",".join(map(self._written, self._seen, row)) for row in rows]
        text = "\n".join(lines) + "\n"
        self._left -= len(text)
        if self._left < 0:
            raise ToolError("result.too_large", f"the rows are more than {MAX_BYTES >> 30} GiB as text")
        self._file.write(text)
        self.row_count += len(rows)

    @staticmethod
    def _written(seen: set[Any], value: Any) -> str:
        if value is None:
            return NULL
        kind, text = _kind_and_text(value)
        seen.add(kind)
        return text

    def close(self) -> list[TypedColumn]:
        """End the file, and return the columns."""
        self._file.close()
        return [TypedColumn(name, _type_of(seen)) for name, seen in zip(self._names, self._seen, strict=True)]


def _type_of(seen: set[Any]) -> str:
    # Integers alone are BIGINT. With one decimal or longer integer among them, all values of the column are decimals.
    if seen and seen <= _EXACT and seen != {int}:
        return DECIMAL
    return _TYPES.get(frozenset(seen), "VARCHAR")


def _kind_and_text(value: Any) -> tuple[Any, str]:
    kind = type(value)
    match value:
        # In this order: bool is a kind of int, and datetime a kind of date.
        case bool():
            return bool, "true" if value else "false"
        case int():
            return (int if -_LARGEST <= value < _LARGEST else _LONG), str(value)
        case float():
            return float, repr(value)
        case str():
            return str, _quoted_name(value)
        case Decimal():
            return Decimal, format(value, "f") if value.is_finite() else str(value)
        case datetime():
            return (datetime if value.tzinfo is None else _AWARE), value.isoformat(" ")
        case date() | time() | UUID():
            return kind, str(value)
        case bytes() | bytearray() | memoryview():
            return bytes, "\\x" + bytes(value).hex()
    made = plain(value)
    return str, _quoted_name(made if isinstance(made, str) else msgspec.json.encode(made).decode())


def _quoted_name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


BATCH_ROWS = 500
FILE_ROWS = 5_000
# The limit for a call whose rows become its result, which may be a quarter of that.
_MAX_RECEIVED_BYTES = 256 << 20
# Of rows that go to a file, between two batches of them: some drivers hold all rows until the first one is fetched.
_MAX_BATCH_BYTES = 1 << 30
_sockets = GuardedSockets(AddressPolicy())
_reached: list[str] = []  # the database of this call, once it is reached: later refusals are other errors


def serve() -> None:
    _sockets.install()
    _sockets.limit_received()
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    try:
        answers = _run(call)
        return msgspec.json.encode({"answers": answers, "columns": call.get("columns")})
    except ToolError as problem:
        return error_answer(problem)
    # Broad: each of ten drivers has its own errors, and the parent must get an answer for all of them.
    except Exception as problem:
        if _sockets.is_used_up:
            return error_answer(_too_much(is_for_file=bool(call.get("rows_file"))))
        return msgspec.json.encode({"error": driver_error(problem, blocked=None if _reached else _sockets.refusal)})


def _too_much(*, is_for_file: bool) -> ToolError:
    if is_for_file:
        message = f"the database sent more than {_MAX_BATCH_BYTES >> 20} MiB for {FILE_ROWS} rows: ask for less"
    else:
        message = f"the database sent more than {_MAX_RECEIVED_BYTES >> 20} MiB: ask for less, or for rows: parquet"
    return ToolError("result.too_large", message)


def _run(call: dict[str, Any]) -> list[SqlAnswer]:
    _sockets.policy = msgspec.convert(call["policy"], AddressPolicy)
    _sockets.refusal, _sockets.left = None, _MAX_BATCH_BYTES if call.get("rows_file") else _MAX_RECEIVED_BYTES
    _reached.clear()
    engine = engine_of(msgspec.convert(call["connection"], Connection))
    isolation = call["isolation"] if call["transaction"] else "AUTOCOMMIT"
    options = {"isolation_level": isolation} if isolation else {}
    with engine.connect() as connection:
        _reached.append(engine.dialect.name)
        # Streamed, if the driver can: other drivers hold all rows before the first limit is checked.
        connection = connection.execution_options(stream_results=True, **options)
        try:
            answers = _answers(connection, call)
            connection.commit()
        except (DBAPIError, SQLAlchemyError, ToolError):
            connection.rollback()
            raise
    return answers


def _answers(connection: sqlalchemy.Connection, call: dict[str, Any]) -> list[SqlAnswer]:
    if (insertion := call["insertion"]) is not None:
        statements = insertions(insertion, connection.dialect)
        return [SqlAnswer([], [], _insert_rows(connection, text, rows)) for text, rows in statements]
    allowance = Allowance(call["max_rows"])
    if call.get("load"):
        _load(connection, call["load"])
    if call.get("rows_file"):
        *before, last = call["statements"]
        answers = [_answer(connection, parts, allowance) for parts in before]
        return [*answers, _into_file(connection, last, call)]
    return [_answer(connection, parts, allowance) for parts in call["statements"]]


def _load(connection: sqlalchemy.Connection, load: dict[str, Any]) -> None:
    """Load lines of JSON into a table, in batches."""
    if load["empties"]:
        connection.exec_driver_sql(f"DELETE FROM {load['table']}")  # noqa: S608  a checked name
    with open(load["file"], encoding="utf-8") as lines:
        while some := list(islice(lines, ROWS_AT_ONCE)):
            rows = [_read_row(line, load["binary"]) for line in some]
            insertion = {"table": load["table"], "groups": [rows], "key": load["key"]}
            for text, values in insertions(insertion, connection.dialect):
                _insert_rows(connection, text, values)


def _read_row(line: str, binary: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line)
    for name in binary:
        row[name] = bytes.fromhex(row[name]) if row[name] is not None else None
    return row


def _into_file(connection: sqlalchemy.Connection, parts: list[Any], call: dict[str, Any]) -> SqlAnswer:
    """Write the rows of the last statement to a file as they are fetched; `columns` of the call become their types."""
    text, values = rendered(parts, connection.dialect)
    result = connection.exec_driver_sql(text, values)
    if not result.returns_rows:
        raise ToolError("sql.input", "spec.rows: parquet keeps the rows of the last statement, which gives none")
    names = [str(name) for name in result.keys()]  # noqa: SIM118  it is no mapping
    with closing(RowFile(Path(call["rows_file"]), names)) as file:
        while batch := result.fetchmany(FILE_ROWS):
            _sockets.left = _MAX_BATCH_BYTES  # these rows have arrived, and leave the memory
            file.write(batch)
            check_rows(file.row_count, call["max_rows"])
        call["columns"] = file.close()
    return SqlAnswer([], [one.name for one in call["columns"]], file.row_count)


def _insert_rows(connection: sqlalchemy.Connection, text: str, rows: list[Any]) -> int:
    connection.exec_driver_sql(text, rows)
    return len(rows)


def _answer(connection: sqlalchemy.Connection, parts: list[Any], allowance: Allowance) -> SqlAnswer:
    text, values = rendered(parts, connection.dialect)
    result = connection.exec_driver_sql(text, values)
    if not result.returns_rows:
        return SqlAnswer([], [], max(result.rowcount, 0))
    columns = [str(name) for name in result.keys()]  # noqa: SIM118  it is no mapping
    rows: list[dict[str, Any]] = []
    while batch := result.fetchmany(BATCH_ROWS):
        made = [dict(zip(columns, map(plain, row), strict=True)) for row in batch]
        rows += made
        allowance.take(made, len(rows))
    return SqlAnswer(rows, columns, len(rows))


# Errors of database drivers, as error outcomes: the database's own code and words, never the SQL or its values.

_RETRYABLE = frozenset(
    {"1205", "1213", "40001", "40P01", "ORA-00060", "SQLITE_BUSY", "SQLITE_LOCKED", "2006", "2013", "2003"}
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_LONGEST = 500


def driver_error(problem: Exception, *, blocked: str | None = None) -> dict[str, Any]:
    """The error of a call."""
    if blocked is not None:  # `problem` is what the driver made of it
        return {"kind": "tool.not_allowed", "message": blocked, "retryable": False, "code": "blocked"}
    if isinstance(problem, ImportError | NoSuchModuleError):
        return {"kind": "tool.unknown_kind", "message": f"the driver of this database is not installed: {problem}"}
    cause = problem.orig if isinstance(problem, DBAPIError) and problem.orig is not None else problem
    code = _code(cause)
    lost = isinstance(problem, DBAPIError) and problem.connection_invalidated
    network = isinstance(problem, OperationalError | OSError) and isinstance(cause.__cause__ or cause, OSError)
    return {
        "kind": "sql.error",
        "message": _message(cause),
        "retryable": bool(lost or network or code in _RETRYABLE),
        "code": code,
    }


def _code(cause: BaseException) -> str | None:
    """The error code, which each driver keeps in a place of its own."""
    first = cause.args[0] if cause.args else None
    if isinstance(first, int) and not isinstance(first, bool):
        return str(first)
    for name in ("sqlite_errorname", "sqlstate", "full_code", "errno", "number", "error_name", "code"):
        if (found := getattr(cause, name, None)) not in (None, "", -1):
            return str(found)
    return str(found) if (found := getattr(first, "full_code", None)) else None


def _message(cause: BaseException) -> str:
    error = cause.args[1] if len(cause.args) > 1 and isinstance(cause.args[0], int) else cause
    return _CONTROL.sub(" ", str(error)).strip()[:_LONGEST] or type(cause).__name__


# Insertions, in the child: statements that write rows to a table, in each dialect. Names are quoted where necessary.
ROWS_AT_ONCE = 1_000


def insertions(insertion: dict[str, Any], dialect: Dialect) -> Iterator[tuple[str, list[Any]]]:
    """The statements, each with the rows to run it for."""
    quote = dialect.identifier_preparer.quote
    table = ".".join(quote(name.strip('"')) for name in insertion["table"].split("."))
    for group in insertion["groups"]:
        columns = sorted(group[0])
        text = _statement(table, columns, insertion["key"], dialect)
        rows = [row_arguments([row[name] for name in columns], dialect) for row in group]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield text, rows[start : start + ROWS_AT_ONCE]


def _statement(table: str, columns: list[str], key: list[str], dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    names = [quote(name) for name in columns]
    keys = [quote(name) for name in key]
    signs = [placeholder(number, dialect) for number in range(1, len(columns) + 1)]
    insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(signs)})"  # noqa: S608  names are quoted
    if not keys:
        return insert
    of_key = frozenset(keys)
    rest = [name for name in names if name not in of_key]
    known = dialect_named(dialect.name)
    match known.upsert if known is not None else "merge":
        case "conflict":
            update = ", ".join(f"{name} = excluded.{name}" for name in rest)
            return f"{insert} ON CONFLICT ({', '.join(keys)}) DO " + (f"UPDATE SET {update}" if rest else "NOTHING")
        case "duplicate":
            update = ", ".join(f"{name} = VALUES({name})" for name in rest or keys)
            return f"{insert} ON DUPLICATE KEY UPDATE {update}"
        case "none":
            raise ToolError(
                "sql.input", f"{dialect.name} has no upsert: leave mode out, or write the statement yourself"
            )
        case _:
            return _merge(table, names, keys, rest, signs, dialect)


def _merge(table: str, names: list[str], keys: list[str], rest: list[str], signs: list[str], dialect: Dialect) -> str:
    given = ", ".join(f"{sign} AS {name}" for sign, name in zip(signs, names, strict=True))
    source = f"SELECT {given}" + (" FROM dual" if dialect.name == "oracle" else "")  # noqa: S608  signs and quoted names
    same = " AND ".join(f"t.{name} = s.{name}" for name in keys)
    update = ", ".join(f"{name} = s.{name}" for name in rest)
    matched = f" WHEN MATCHED THEN UPDATE SET {update}" if rest else ""
    inserted = f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"  # noqa: S608
    # SQL Server refuses a MERGE without a semicolon at its end, and needs it for no other statement.
    end = ";" if dialect.name == "mssql" else ""
    return f"MERGE INTO {table} t USING ({source}) s ON ({same}){matched} WHEN NOT MATCHED THEN {inserted}{end}"
