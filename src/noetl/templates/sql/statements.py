"""Statements ready to run: text with numbered placeholders, and the values that belong to them."""

from __future__ import annotations

from typing import Any

import msgspec


class Parameter(msgspec.Struct, frozen=True):
    """A bound value. It means what the same value written as a constant would mean: `typed` numbers and booleans are
    numbers and booleans, everything else takes the type its place asks for, as a quoted constant does."""

    value: Any
    typed: bool = False


Part = str | Parameter


class Statement(msgspec.Struct, frozen=True):
    """One statement. `keyword` is its first word, in capitals."""

    parts: tuple[Part, ...]
    keyword: str = ""

    @property
    def text(self) -> str:
        """The statement with `$1`, `$2`, … where its parameters stand."""
        number, written = 0, []
        for part in self.parts:
            if isinstance(part, Parameter):
                number += 1
                written.append(f"${number}")
            else:
                written.append(part)
        return "".join(written)

    @property
    def params(self) -> tuple[Any, ...]:
        return tuple(part.value for part in self.parts if isinstance(part, Parameter))


class Bound(msgspec.Struct, frozen=True):
    """An input of SQL, its templates evaluated."""

    statements: tuple[Statement, ...] = ()
