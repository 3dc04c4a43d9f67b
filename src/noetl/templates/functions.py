"""Functions: the callable names of a template. Nothing else is global (reliability.md §2.1). Also the words after
`is` (Jinja2's tests)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError
from noetl.templates import budget
from noetl.templates.budget import Evaluation
from noetl.templates.comparisons import contains, equal, ordered
from noetl.templates.values import Missing, described, is_number, undefined_error, unknown

MAX_RANGE = 100_000
_BOUND_BITS = 64  # each of its numbers would be long otherwise, and is made when it is looked at
Predicate = Callable[..., bool]


def _range(run: Evaluation, *bounds: int) -> range:
    if not 1 <= len(bounds) <= 3 or not all(isinstance(bound, int) for bound in bounds):
        raise TemplateError("range() takes one to three whole numbers")
    if len(bounds) == 3 and bounds[2] == 0:
        raise TemplateError("the step of range() cannot be zero")
    if any(bound.bit_length() > _BOUND_BITS for bound in bounds):
        raise TemplateError(f"range() takes whole numbers of at most {_BOUND_BITS} bits")
    made = range(*bounds)
    # Not `len(made)`: that fails for ranges longer than a machine word.
    if abs(made.stop - made.start) > abs(made.step) * MAX_RANGE:
        raise TemplateError(f"range() gives at most {MAX_RANGE:,} numbers")
    return made


def _dict(run: Evaluation, *given: Any, **entries: Any) -> Any:
    """One mapping of all; of two values under one key the later one stays."""
    if not all(isinstance(one, dict) for one in given):
        raise TemplateError("dict() takes mappings, named values, or both")
    run.reserve(8 * (sum(map(len, given)) + len(entries)))
    return run.own({key: value for one in (*given, entries) for key, value in one.items()})


# Times and lengths of time in templates, and their plain forms (TPL-10).


def moment(now: float | None) -> datetime:
    """`now()`: the time the caller gave, never the clock's own."""
    if now is None:
        raise TemplateError("now() cannot be used here: this place is evaluated without a time")
    return datetime.fromtimestamp(now, UTC)


def length(value: object) -> timedelta:
    """`duration(text)`: the forms of TMR-03."""
    try:
        return timedelta(seconds=seconds(value))
    except ValueError as wrong:
        raise TemplateError(str(wrong)) from None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "now": lambda run: moment(run.now),
    "duration": lambda run, text: length(text),
    "range": _range,
    "dict": _dict,
}


def moment_text(value: datetime) -> str:
    """RFC 3339 in UTC; fractions of a second only where there are any."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def length_seconds(value: timedelta) -> int | float:
    """Seconds, whole where they are whole."""
    total = value.total_seconds()
    return int(total) if total.is_integer() else total


# The words allowed after `is` (Jinja2's tests).


def predicate(name: str) -> Predicate:
    """The test of that name. TemplateError when there is none."""
    found = PREDICATES.get(name)
    if found is None:
        raise unknown("test", name, PREDICATES)
    return found


def _divisible(run: Evaluation, value: Any, by: int) -> bool:
    if by == 0:
        raise TemplateError("division by zero")
    run.spend(budget.multiplying(value, by))
    return bool(_checked_integer(value) % by == 0)


def _checked_integer(value: Any) -> Any:
    if isinstance(value, Missing):
        raise undefined_error(value)
    if not is_number(value):
        raise TemplateError(f"{described(value)} is neither odd nor even: convert it with | int")
    return value


PREDICATES: dict[str, Predicate] = {
    "defined": lambda run, value: not isinstance(value, Missing),
    "undefined": lambda run, value: isinstance(value, Missing),
    "none": lambda run, value: value is None,
    "true": lambda run, value: value is True,
    "false": lambda run, value: value is False,
    "boolean": lambda run, value: isinstance(value, bool),
    "integer": lambda run, value: isinstance(value, int) and not isinstance(value, bool),
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
    # The same value of the same kind: `1 is sameas true` is false.
    "sameas": lambda run, value, other: type(value) is type(other) and equal(run, value, other),
    "in": contains,
    **dict.fromkeys(("eq", "equalto", "=="), equal),
    **dict.fromkeys(("ne", "!="), lambda run, value, other: not equal(run, value, other)),
    **dict.fromkeys(("lt", "lessthan", "<"), lambda run, value, other: ordered(run, "lt", value, other)),
    **dict.fromkeys(("le", "<="), lambda run, value, other: ordered(run, "lteq", value, other)),
    **dict.fromkeys(("gt", "greaterthan", ">"), lambda run, value, other: ordered(run, "gt", value, other)),
    **dict.fromkeys(("ge", ">="), lambda run, value, other: ordered(run, "gteq", value, other)),
}
