"""Insertion: rows into a table of DuckDB, as statements with parameters."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.templates.sql.statements import Bound, Parameter, Part, Statement
from noetl.tools.sql.requests import Insertion, conflict_clause, quoted_name

ROWS_AT_ONCE = 200


def insertion_statements(insertion: Insertion) -> Bound:
    return Bound(tuple(_statements(insertion)))


def _statements(insertion: Insertion) -> Iterator[Statement]:
    for group in insertion.groups:
        columns = sorted(group[0])
        names = ", ".join(map(quoted_name, columns))
        for start in range(0, len(group), ROWS_AT_ONCE):
            parts: list[Part] = [f"INSERT INTO {insertion.table} ({names}) VALUES "]  # noqa: S608  names are quoted
            for index, row in enumerate(group[start : start + ROWS_AT_ONCE]):
                parts.append(", (" if index else "(")
                for number, name in enumerate(columns):
                    parts += [", "] if number else []
                    parts.append(Parameter(row[name]))
                parts.append(")")
            parts.append(conflict_clause(insertion, columns))
            yield Statement(tuple(parts), "INSERT")
