"""Insertion: rows into a table (TOOL-05, RES-05). The server reads them from JSON by the table's own column types."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.tools.sql.requests import Insertion, conflict_clause, quoted_name


async def insert(connection: Any, insertion: Insertion) -> int:
    """Insert all rows; how many there are now of them, updated ones included."""
    count = 0
    for group in insertion.groups:
        columns = sorted(group[0])
        status = await connection.execute(_text(insertion, columns), msgspec.json.encode(group).decode())
        count += int(status.rpartition(" ")[2])
    return count


def _text(insertion: Insertion, columns: list[str]) -> str:
    names = ", ".join(map(quoted_name, columns))
    table = insertion.table
    return (
        f"INSERT INTO {table} ({names}) SELECT {names} "  # noqa: S608  names are quoted, rows are one parameter
        f"FROM jsonb_populate_recordset(NULL::{table}, CAST($1::text AS jsonb))" + conflict_clause(insertion, columns)
    )
