"""Statements ready to run: text with numbered placeholders, and the values that belong to them."""

from __future__ import annotations

from typing import Any

import msgspec


class Parameter(msgspec.Struct, frozen=True):
    """A bound value. It means what the same value written as a constant would mean: `typed` numbers and booleans are
    numbers and booleans, everything else takes the type its place asks for, as a quoted constant does. `source` is the
    template it comes from: the same template with the same value is one parameter. `untold`: its place asks for no type
    at all, so that only the value can tell."""

    value: Any
    typed: bool = False
    source: str = ""
    untold: bool = False

    def is_same(self, other: Parameter) -> bool:
        """Whether both are one template that gave one value."""
        return (
            bool(self.source)
            and (self.source, self.typed, self.untold) == (other.source, other.typed, other.untold)
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
