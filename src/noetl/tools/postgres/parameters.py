"""Parameters: plain values to what the server takes, each meaning what it would mean written as a constant.

A number or a boolean that stands by itself has the type PostgreSQL gives such a constant. Everything else goes as text
and is read by the server itself as the type it asks for at that place: so a date, a uuid or an enum is exactly as
valid as it would be in quotes, and the error is the server's own (22P02).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from noetl.templates.sql.constants import as_text
from noetl.templates.sql.statements import Parameter, Statement

_TEXT_TYPES = frozenset({"text", "varchar", "bpchar", "name", "unknown"})
_INT4 = 1 << 31
_INT8 = 1 << 63


class Typed:
    """A statement and its values, as the server is to see them."""

    def __init__(self, statement: Statement) -> None:
        self._parts = statement.parts
        self._parameters = [part for part in statement.parts if isinstance(part, Parameter)]
        self._casts = [_constant_type(parameter) for parameter in self._parameters]
        self._asked: list[Any] = [None] * len(self._parameters)

    @property
    def text(self) -> str:
        number, written = 0, []
        for part in self._parts:
            if isinstance(part, str):
                written.append(part)
                continue
            number += 1
            written.append(self._placeholder(number))
        return "".join(written)

    def _placeholder(self, number: int) -> str:
        if cast := self._casts[number - 1]:
            return f"CAST(${number} AS {cast})"
        if asked := self._asked[number - 1]:
            return f"CAST(${number}::text AS {_type_name(asked)})"
        return f"${number}"

    def ask(self, types: Sequence[Any]) -> bool:
        """Take the types the server asks for; true when the text has changed by it."""
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
            return Decimal(str(value)) if cast == "numeric" else value
        asked = self._asked[index]
        if isinstance(value, list) and asked is not None and asked.kind == "array":
            return array_text(value)
        return as_text(value)


def _constant_type(parameter: Parameter) -> str | None:
    """The type of the same constant in PostgreSQL; None where its place decides."""
    value = parameter.value
    if not parameter.typed or not isinstance(value, int | float):
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float) or not -_INT8 <= value < _INT8:
        return "numeric"
    return "int4" if -_INT4 <= value < _INT4 else "int8"


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
