"""The table between source and target: columns over a view, each with its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import msgspec

from noetl.base.errors import ToolError


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is SQL over the view; `is_cast`: the view has another type there."""

    name: str
    type: str
    value: str
    is_cast: bool = True

    @property
    def typed(self) -> str:
        return f"CAST({self.value} AS {self.type})" if self.is_cast else self.value

    @property
    def is_nested(self) -> bool:
        return self.type.endswith("]") or self.type.startswith(("STRUCT", "MAP", "UNION"))


class Table(msgspec.Struct, frozen=True, kw_only=True):
    view: str
    columns: list[TableColumn]

    def select(self, written: Callable[[TableColumn], str] = lambda column: column.typed) -> str:
        """The query that gives the table, each column as `written` says."""
        made = ", ".join(f"{written(column)} AS {named(column.name)}" for column in self.columns)
        return f"SELECT {made} FROM {self.view}"  # noqa: S608  names are quoted


def named(name: str) -> str:
    """A name as SQL reads it."""
    return '"' + name.replace('"', '""') + '"'


def distinct_names(names: list[str]) -> list[str]:
    """Names that differ also without regard to case."""
    taken: set[str] = set()
    made = []
    for name in names:
        own, number = name, 0
        while own.lower() in taken:
            number += 1
            own = f"{name}_{number}"
        taken.add(own.lower())
        made.append(own)
    return made


def misfit(connection: Any, table: Table, name: str) -> ToolError | None:
    """The first value that is not of its column's type, with its row."""
    for column in table.columns:
        if not column.is_cast:
            continue
        query = (
            f"SELECT n, v FROM (SELECT row_number() OVER () AS n, {column.value} AS v FROM {table.view}) "  # noqa: S608
            f"WHERE v IS NOT NULL AND TRY_CAST(v AS {column.type}) IS NULL LIMIT 1"
        )
        try:
            found = connection.execute(query).fetchone()
        except duckdb.Error:
            continue
        if found is not None:
            return ToolError(
                "convert.data",
                f'{name}, row {found[0]}, column "{column.name}": "{found[1]}" is no {column.type}',
                row=int(found[0]),
                column=column.name,
            )
    return None
