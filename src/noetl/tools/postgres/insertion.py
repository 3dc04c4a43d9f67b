"""Insertion: rows into a table (TOOL-05, RES-05). The server reads them from JSON by the table's own column types.

In JSON, text for a json column is a JSON string. Text that is an object or a list means that, as it does in quotes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from noetl.tools.sql.requests import Insertion, conflict_clause, quoted_name

_JSON_COLUMNS = """
SELECT attname::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = to_regclass($1) AND attnum > 0
  AND CASE typtype WHEN 'd' THEN typbasetype ELSE atttypid END IN ('json'::regtype, 'jsonb'::regtype)
"""
_documents = msgspec.json.Decoder(dict[str, Any] | list[Any])


async def insert(connection: Any, insertion: Insertion) -> int:
    """Insert all rows; how many there are now of them, updated ones included."""
    count, json_columns = 0, await _json_columns(connection, insertion)
    for group in insertion.groups:
        columns = sorted(group[0])
        rows = [_with_documents(row, json_columns) for row in group] if json_columns else group
        status = await connection.execute(_text(insertion, columns), msgspec.json.encode(rows).decode())
        count += int(status.rpartition(" ")[2])
    return count


def _text(insertion: Insertion, columns: list[str]) -> str:
    names = ", ".join(map(quoted_name, columns))
    table = insertion.table
    return (
        f"INSERT INTO {table} ({names}) SELECT {names} "  # noqa: S608  names are quoted, rows are one parameter
        f"FROM jsonb_populate_recordset(NULL::{table}, CAST($1::text AS jsonb))" + conflict_clause(insertion, columns)
    )


async def _json_columns(connection: Any, insertion: Insertion) -> frozenset[str]:
    """The table's columns of JSON; not asked for where no text could be a document."""
    if not any(_may_be_document(value) for group in insertion.groups for row in group for value in row.values()):
        return frozenset()
    return frozenset(found[0] for found in await connection.fetch(_JSON_COLUMNS, insertion.table))


def _with_documents(row: dict[str, Any], json_columns: frozenset[str]) -> dict[str, Any]:
    return {name: _document(value) if name in json_columns else value for name, value in row.items()}


def _may_be_document(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip()[:1] in ("{", "[")


def _document(value: Any) -> Any:
    """The text as it is, every digit of it, where it is a document; else a JSON string like any other."""
    if _may_be_document(value):
        with suppress(msgspec.DecodeError, UnicodeEncodeError):
            _documents.decode(value)
            return msgspec.Raw(value.encode())
    return value
