"""A file of rows, in the child of the `sql` tool: CSV, and the types that its columns turn out to have.

Most drivers do not say of which type a column is, and some databases have none. So the values tell: all of them, since
a type that only fits the first thousand rows would fail on the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.sql.answers import plain
from noetl.tools.tables.stored import MAX_BYTES
from noetl.tools.tables.table_sql import BYTES, DECIMAL, NULL, TypedColumn, unique_names

# Beyond it DuckDB's BIGINT ends, and the column is a decimal.
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
        """The columns, once all rows are written."""
        self._file.close()
        return [TypedColumn(name, _type_of(seen)) for name, seen in zip(self._names, self._seen, strict=True)]


def _type_of(seen: set[Any]) -> str:
    if seen and seen <= _EXACT and seen != {int}:
        return DECIMAL
    return _TYPES.get(frozenset(seen), "VARCHAR")


def _kind_and_text(value: Any) -> tuple[Any, str]:
    kind = type(value)
    match value:
        case bool():
            return bool, "true" if value else "false"
        case int():
            return (int if -_LARGEST <= value < _LARGEST else _LONG), str(value)
        case float():
            return float, repr(value)
        case str():
            return str, _quoted(value)
        case Decimal():
            return Decimal, format(value, "f") if value.is_finite() else str(value)
        case datetime():
            return (datetime if value.tzinfo is None else _AWARE), value.isoformat(" ")
        case date() | time() | UUID():
            return kind, str(value)
        case bytes() | bytearray() | memoryview():
            return bytes, "\\x" + bytes(value).hex()
    made = plain(value)
    return str, _quoted(made if isinstance(made, str) else msgspec.json.encode(made).decode())


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
