"""What can stand after `is` (Jinja2's tests), an allow-list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import prices
from noetl.templates.budget import Evaluation
from noetl.templates.comparisons import contains, equal, ordered
from noetl.templates.undefined import Missing, unknown
from noetl.templates.values import described, is_number, undefined_error

Predicate = Callable[..., bool]


def predicate(name: str) -> Predicate:
    """The test of that name. TemplateError when there is none."""
    found = PREDICATES.get(name)
    if found is None:
        raise unknown("test", name, PREDICATES)
    return found


def _is_integer(run: Evaluation, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _divisible(run: Evaluation, value: Any, by: int) -> bool:
    if by == 0:
        raise TemplateError("division by zero")
    run.spend(prices.multiplying(value, by))
    return bool(_checked_integer(value) % by == 0)


def _checked_integer(value: Any) -> Any:
    if isinstance(value, Missing):
        raise undefined_error(value)
    if not is_number(value):
        raise TemplateError(f"{described(value)} is neither odd nor even: convert it with | int")
    return value


def _same(run: Evaluation, value: Any, other: Any) -> bool:
    """The same value of the same kind: `1 is sameas true` is false."""
    return type(value) is type(other) and equal(run, value, other)


PREDICATES: dict[str, Predicate] = {
    "defined": lambda run, value: not isinstance(value, Missing),
    "undefined": lambda run, value: isinstance(value, Missing),
    "none": lambda run, value: value is None,
    "true": lambda run, value: value is True,
    "false": lambda run, value: value is False,
    "boolean": lambda run, value: isinstance(value, bool),
    "integer": _is_integer,
    "float": lambda run, value: isinstance(value, float),
    "number": lambda run, value: is_number(value),
    "string": lambda run, value: isinstance(value, str),
    "mapping": lambda run, value: isinstance(value, dict),
    "sequence": lambda run, value: isinstance(value, str | list | tuple | range | dict),
    "iterable": lambda run, value: isinstance(value, str | list | tuple | range | dict | Missing),
    "odd": lambda run, value: _checked_integer(value) % 2 == 1,
    "even": lambda run, value: _checked_integer(value) % 2 == 0,
    "divisibleby": _divisible,
    "lower": lambda run, value: isinstance(value, str) and run.read(value).islower(),
    "upper": lambda run, value: isinstance(value, str) and run.read(value).isupper(),
    "sameas": _same,
    "in": contains,
    **dict.fromkeys(("eq", "equalto", "=="), equal),
    **dict.fromkeys(("ne", "!="), lambda run, value, other: not equal(run, value, other)),
    **dict.fromkeys(("lt", "lessthan", "<"), lambda run, value, other: ordered(run, "lt", value, other)),
    **dict.fromkeys(("le", "<="), lambda run, value, other: ordered(run, "lteq", value, other)),
    **dict.fromkeys(("gt", "greaterthan", ">"), lambda run, value, other: ordered(run, "gt", value, other)),
    **dict.fromkeys(("ge", ">="), lambda run, value, other: ordered(run, "gteq", value, other)),
}
