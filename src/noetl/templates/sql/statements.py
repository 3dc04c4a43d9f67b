"""Statements ready to run: text with numbered placeholders, and the values that belong to them."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from noetl.base.errors import ToolError


class Parameter(msgspec.Struct, frozen=True):
    """A bound value. It means what the same value written as a constant would mean: `typed` numbers and booleans are
    numbers and booleans, everything else takes the type its place asks for, as a quoted constant does. `source` is the
    template it comes from: the same template with the same value is one parameter. `in_untyped_place`: its place asks
    for no type, so the value alone decides."""

    value: Any
    typed: bool = False
    source: str = ""
    in_untyped_place: bool = False

    def is_same(self, other: Parameter) -> bool:
        """Whether both are one template that gave one value."""
        return (
            bool(self.source)
            and (self.source, self.typed, self.in_untyped_place) == (other.source, other.typed, other.in_untyped_place)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )


Part = str | Parameter


class Statement(msgspec.Struct, frozen=True):
    """One statement. `keyword` is its first word, in capitals."""

    parts: tuple[Part, ...]
    keyword: str = ""

    @property
    def text(self) -> str:
        """The statement with `$1`, `$2`, … where its parameters stand."""
        numbers = iter(numbering(self.parts)[0])
        return "".join(part if isinstance(part, str) else f"${next(numbers)}" for part in self.parts)

    @property
    def params(self) -> tuple[Any, ...]:
        return tuple(parameter.value for parameter in numbering(self.parts)[1])


class Bound(msgspec.Struct, frozen=True):
    """An input of SQL, its templates evaluated."""

    statements: tuple[Statement, ...] = ()


def numbering(parts: tuple[Part, ...]) -> tuple[list[int], list[Parameter]]:
    """The number of each parameter where it stands, from one, and the parameters by number, each once. A database that
    compares expressions (GROUP BY) sees the same template as the same parameter."""
    numbers: list[int] = []
    found: list[Parameter] = []
    by_source: dict[str, list[int]] = {}
    for part in parts:
        if isinstance(part, str):
            continue
        alike = by_source.setdefault(part.source, [])
        number = next((each for each in alike if found[each - 1].is_same(part)), 0) if part.source else 0
        if not number:
            found.append(part)
            number = len(found)
            alike.append(number)
        numbers.append(number)
    return numbers, found


# Constants: values written as SQL, where a statement takes no parameter; and quoted text read back.

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)


def constant(value: Any) -> str:
    """`value` as an SQL constant: text in quotes that it cannot leave."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            # `repr` of a float reads back as the same number.
            return repr(value)
        case _:
            return quoted(as_text(value))


def quoted(text: str) -> str:
    """Text as a constant; a backslash in it is a backslash (`standard_conforming_strings`, which connections set)."""
    if "\x00" in text:
        raise ToolError("sql.fragment", "text for SQL holds the character U+0000, which no database keeps")
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """A column by its exact name."""
    return '"' + name.replace('"', '""') + '"'


def as_text(value: Any) -> str:
    """A value as the text of a quoted constant: lists and mappings as JSON, true and false as SQL has them."""
    match value:
        case str():
            return str.__str__(value)
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        case _:
            return str(value)


def unquoted(text: str, *, escapes: bool) -> str:
    """What quoted text means, given what stands between its quotes; `escapes` as in E'…'."""
    return _ESCAPE.sub(_unescaped, text) if escapes else text.replace("''", "'")


def _unescaped(match: re.Match[str]) -> str:
    short, long, hexadecimal, octal, other = match.groups()
    if short or long or hexadecimal:
        return chr(int(short or long or hexadecimal, 16))
    if octal:
        # Three octal digits can say more than a byte; PostgreSQL takes the low one.
        return chr(int(octal, 8) & 0xFF)
    return "'" if other is None else _ESCAPES.get(other, other)
