"""Logic: the boolean shape of a guard, as far as it is known without running it. For the analyser.

A small closed set of plain values. A test in a guard is a `Compare` of one reference with constants; an unknown part is
`Opaque`, which equals another `Opaque` of the same text, so that `p` and `not p` still show as opposites. Where it is
not opaque the shape is exact: the guard is true exactly when the shape is. One exception: false words as text
(`"false"`, `"0"`), which TPL-08 treats as false as a whole guard but `not` and `and` do not.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Path = tuple[str | int, ...]
Operator = Literal["==", "!=", "in", "not in", "<", "<=", ">", ">=", "truthy", "defined"]


class GuardReference(msgspec.Struct, frozen=True):
    """A read of a name and the constant part of what is read on it: `ctx.a['b'].c` is ctx, (a, b, c).

    `defaulted`: the template handles an undefined value, by `default(…)`, an `is defined` test or a guard around the
    read.
    """

    root: str
    path: Path = ()
    defaulted: bool = False


class Comparison(msgspec.Struct, frozen=True):
    """An equality or membership test of a reference against constants, anywhere in a template."""

    root: str
    path: Path
    op: Literal["==", "!=", "in", "not in"]
    values: tuple[Any, ...]


class Compare(msgspec.Struct, frozen=True):
    """One test of one reference.

    `==`, `!=` and the orders have one value (for orders a number); `in` and `not in` have all members; `truthy`
    (`{{ ctx.ok }}`) and `defined` have none. Undefined makes `!=` and `not in` true and everything else false.
    """

    root: str
    path: Path
    op: Operator
    values: tuple[Any, ...] = ()


class And(msgspec.Struct, frozen=True):
    parts: tuple[Shape, ...]


class Or(msgspec.Struct, frozen=True):
    parts: tuple[Shape, ...]


class Not(msgspec.Struct, frozen=True):
    part: Shape


class Const(msgspec.Struct, frozen=True):
    """Always true, or always false."""

    value: bool


class Opaque(msgspec.Struct, frozen=True):
    """An unknown expression; `text` is equal for equal expressions."""

    text: str


Shape = And | Or | Not | Compare | Const | Opaque


# Truth of a guard's value (TPL-08).

_FALSE_TEXTS = frozenset({"", "false", "0", "no", "none", "null"})
_LONGEST_FALSE = max(map(len, _FALSE_TEXTS))


def truth(value: Any) -> bool:
    """Booleans as they are, numbers non-zero, collections non-empty, text unless it says no."""
    if isinstance(value, str):
        text = value.strip()  # folding case never makes a text shorter
        return len(text) > _LONGEST_FALSE or text.casefold() not in _FALSE_TEXTS
    return bool(value)
