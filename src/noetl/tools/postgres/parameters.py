"""Parameters: converts plain values to parameters with the meaning that the same constant would have.

A number or a boolean on its own has the type PostgreSQL gives such a constant. Everything else is sent as text, and the
server reads it as the type that its place requires. So a date, a uuid or an enum is exactly as valid as it would be in
quotes, and an invalid one gets the error of the server (22P02).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.templates.sql.statements import Parameter, Part, Statement, as_text, numbering
from noetl.tools.sql.answers import plain

_TEXT_TYPES = frozenset({"text", "varchar", "bpchar", "name", "unknown"})
_DOCUMENT = "jsonb"
# A constant that fits is int4 to PostgreSQL, a larger one int8, then numeric.
_INT4 = 1 << 31
_INT8 = 1 << 63


class Typed:
    """A statement and its values in the form for the server. A template that occurs twice becomes two parameters, since
    each place may require another type; with `shared` it is one parameter, so that the server sees the same
    expression."""

    def __init__(self, statement: Statement, *, shared: bool = False) -> None:
        self._parts = statement.parts
        self._numbers, self._parameters = numbering(
            statement.parts if shared else tuple(_split_parameters(statement.parts))
        )
        self._casts = [_constant_type(parameter) for parameter in self._parameters]
        self._asked: list[Any] = [None] * len(self._parameters)

    @property
    def text(self) -> str:
        numbers = iter(self._numbers)
        return "".join(part if isinstance(part, str) else self._placeholder(next(numbers)) for part in self._parts)

    def _placeholder(self, number: int) -> str:
        if cast := self._casts[number - 1]:
            return f"CAST(${number}{'::text' if cast == _DOCUMENT else ''} AS {cast})"
        if asked := self._asked[number - 1]:
            return f"CAST(${number}::text AS {_type_name(asked)})"
        return f"${number}"

    def ask(self, types: Sequence[Any]) -> bool:
        """Set the types that the server requires; returns whether the text has changed."""
        for index, asked in enumerate(types):
            if self._casts[index] is None and asked.name not in _TEXT_TYPES:
                self._asked[index] = asked
        return any(self._asked)

    @property
    def values(self) -> list[Any]:
        return [self._value(index, parameter.value) for index, parameter in enumerate(self._parameters)]

    def _value(self, index: int, value: Any) -> Any:
        if value is None:
            return None
        if cast := self._casts[index]:
            return _as_cast(value, cast)
        asked = self._asked[index]
        if isinstance(value, list) and asked is not None and asked.kind == "array":
            return array_text(value)
        return as_text(value)


def _constant_type(parameter: Parameter) -> str | None:
    """The type of the same constant in PostgreSQL; None if its place decides."""
    value = parameter.value
    if not parameter.typed or not isinstance(value, int | float):
        # a mapping where any type will do is a document; other text is text, as a constant would be
        return (_DOCUMENT if isinstance(value, dict | list) else "text") if parameter.in_untyped_place else None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float) or not -_INT8 <= value < _INT8:
        return "numeric"
    return "int4" if -_INT4 <= value < _INT4 else "int8"


def shares_templates(statement: Statement) -> bool:
    """Whether a template that takes its type from its place occurs twice."""
    alike, apart = numbering(statement.parts)[1], numbering(tuple(_split_parameters(statement.parts)))[1]
    return len(alike) != len(apart)


def _split_parameters(parts: Iterable[Part]) -> Iterator[Part]:
    """One parameter for each place of a template that takes its type from its place."""
    for part in parts:
        yield part if isinstance(part, str) or _constant_type(part) is not None else Parameter(part.value, part.typed)


def _as_cast(value: Any, cast: str) -> Any:
    if cast == "numeric":
        return Decimal(str(value))
    return as_text(value) if cast in ("text", _DOCUMENT) else value


def _type_name(asked: Any) -> str:
    name, brackets = (asked.name[:-2], "[]") if asked.name.endswith("[]") else (asked.name, "")
    schema, name = (part.replace('"', '""') for part in (asked.schema, name))
    return f'"{schema}"."{name}"{brackets}'


def array_text(items: list[Any]) -> str:
    """A list as PostgreSQL writes arrays."""
    return "{" + ",".join(_element(item) for item in items) + "}"


def _element(item: Any) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, list):
        return array_text(item)
    return '"' + as_text(item).replace("\\", "\\\\").replace('"', '\\"') + '"'


# Values as PostgreSQL's driver gives them, as JSON data (`tools.sql.plain`); ranges as PostgreSQL writes them.
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
    ("jsonb", "binary", lambda body: json.loads(body[1:])),  # a version byte precedes the text
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
