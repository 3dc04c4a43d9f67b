"""Values as PostgreSQL's driver gives them, as JSON data (`tools.sql.plain`); ranges as PostgreSQL writes them."""

from __future__ import annotations

from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.tools.sql.plain import plain


def row_of(record: Any) -> dict[str, Any]:
    return {name: value_of(value) for name, value in record.items()}


def value_of(value: Any) -> Any:
    match value:
        case asyncpg.Range():
            return _range(value)
        case asyncpg.Record():
            return row_of(value)
        case asyncpg.BitString():
            return value.as_string().replace(" ", "")
        case list():
            return [value_of(item) for item in value]
        case _:
            return plain(value)


def _range(value: Any) -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if bound is None else str(plain(bound)) for bound in (value.lower, value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"
