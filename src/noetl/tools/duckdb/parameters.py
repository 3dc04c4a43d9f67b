"""Parameters for DuckDB, and rows inserted with them: plain values, each meaning what it would mean as a constant.

DuckDB gives a parameter the type of its value. A number with a point is a DECIMAL there, not a DOUBLE; and text in an
`IN (…)` takes the type it is compared with, while a list of texts does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

from noetl.templates.sql.lists import ALL_OF, ANY_OF
from noetl.templates.sql.statements import Bound, Parameter, Part, Statement, numbering, quoted_name
from noetl.tools.sql.requests import Insertion, conflict_clause

MAX_DIGITS = 38  # of a DECIMAL
MAX_ITEMS = 10_000  # of an IN that is written out
_IN = {ANY_OF: "IN (", ALL_OF: "NOT IN ("}


def written(statement: Statement) -> tuple[str, list[Any]]:
    """The text of a statement as DuckDB is to see it, and the values of its parameters."""
    parts = tuple(_compared(statement.parts))
    numbers, parameters = numbering(parts)
    casts = [_cast(parameter) for parameter in parameters]
    following = iter(numbers)
    text = "".join(part if isinstance(part, str) else _placeholder(next(following), casts) for part in parts)
    return text, [str(each.value) if cast else _plain(each.value) for each, cast in zip(parameters, casts, strict=True)]


def _compared(parts: tuple[Part, ...]) -> Iterator[Part]:
    """Lists of texts in `IN (…)` as their items."""
    before: Part = ""
    for part, following in zip(parts, (*parts[1:], ""), strict=True):
        if isinstance(part, str) and part in _IN and _has_texts(following):
            yield _IN[part]
        elif isinstance(part, Parameter) and isinstance(before, str) and before in _IN and _has_texts(part):
            for index, item in enumerate(part.value):
                yield ", " if index else ""
                yield Parameter(item, typed=True)
        else:
            yield part
        before = part


def _has_texts(part: Part) -> bool:
    if isinstance(part, str) or not isinstance(part.value, list) or len(part.value) > MAX_ITEMS:
        return False
    return any(isinstance(item, str) for item in part.value)


def _placeholder(number: int, casts: list[str]) -> str:
    return f"CAST(${number} AS {casts[number - 1]})" if casts[number - 1] else f"${number}"


def _cast(parameter: Parameter) -> str:
    """The type of the same constant in DuckDB, where its parameter would have another."""
    if not parameter.typed or not isinstance(parameter.value, float):
        return ""
    number = Decimal(repr(parameter.value)) if "e" not in repr(parameter.value) else None
    if number is None or not number.is_finite():
        return ""
    scale = -int(number.as_tuple().exponent)
    digits = max(len(number.as_tuple().digits), scale)
    return f"DECIMAL({digits}, {scale})" if digits <= MAX_DIGITS else ""


def _plain(value: Any) -> Any:
    """Mappings go as JSON text, which every JSON column takes; lists as lists."""
    nested = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))
    return msgspec.json.encode(value).decode() if nested else value


# Insertion: rows into a table of DuckDB, as statements with parameters.
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
