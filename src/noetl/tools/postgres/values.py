"""Values as PostgreSQL's driver gives them, as JSON data (`tools.sql.plain`); ranges as PostgreSQL writes them."""

from __future__ import annotations

import json
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.tools.sql.plain_values import plain


def _interval(parts: tuple[int, int, int]) -> str:
    """ISO 8601, since a month has no length in seconds."""
    months, days, microseconds = parts
    sign = "-" if microseconds < 0 else ""
    whole, rest = divmod(abs(microseconds), 1_000_000)
    seconds = f"{sign}{whole}.{rest:06d}".rstrip("0").rstrip(".")
    written = [f"{months}M"] if months else []
    written += [f"{days}D"] if days else []
    clock = f"T{seconds}S" if microseconds or not written else ""
    return "P" + "".join(written) + clock


# type, format, reader; in binary, since records and arrays of what is read as text cannot be read at all
CODECS = (
    ("json", "binary", json.loads),
    ("jsonb", "binary", lambda body: json.loads(body[1:])),  # a version byte stands before the text
    ("interval", "tuple", _interval),
)


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
