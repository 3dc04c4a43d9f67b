"""Forms: the values a person fills in, against the fields that were asked for; every problem at once (HUM-03)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from noetl.engine.decision import Refusal

_SHOWN = 80  # characters of a wrong value


def fill(form: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Refusal, ...]]:
    """The values of all fields, defaults where nothing was given, and what is wrong with them. An empty form takes
    no values."""
    filled: dict[str, Any] = {}
    problems: list[Refusal] = []
    names = [str(field["field"]) for field in form]
    for name in values:
        if name not in names:
            allowed = f"the form has {', '.join(names)}" if names else "the form has no fields"
            problems.append(Refusal(field=name, found="there is no such field", allowed=allowed))
    for field in form:
        name = str(field["field"])
        value = values.get(name)
        value = field.get("default") if value is None else value
        if value is None or value == "":
            if field.get("required"):
                problems.append(Refusal(field=name, found="nothing was given", allowed="a value is required"))
            elif value is not None:
                filled[name] = value
            continue
        if problem := _problem(name, field, value):
            problems.append(problem)
        else:
            filled[name] = value
    return filled, tuple(problems)


def _problem(name: str, field: Mapping[str, Any], value: Any) -> Refusal | None:
    kind = str(field.get("type", "string"))
    if kind == "enum":
        options = list(field.get("options", ()))
        if any(type(option) is type(value) and option == value for option in options):
            return None
        return Refusal(
            field=name, found=_value_text(value), allowed=f"one of {', '.join(map(str, options))} is allowed"
        )
    fits, allowed = _TYPES[kind]
    return None if fits(value) else Refusal(field=name, found=_value_text(value), allowed=allowed)


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value[:_SHOWN]}"'
    return str(value)[:_SHOWN] if isinstance(value, bool | int | float) else f"a {type(value).__name__}"


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def _is_integer(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int)


def _is_date(value: Any) -> bool:
    """A day: 2025-01-31."""
    if not isinstance(value, str) or len(value) != len("2025-01-31"):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "a text is allowed"),
    "text": (lambda value: isinstance(value, str), "a text is allowed"),
    "number": (_is_number, "a number is allowed"),
    "integer": (_is_integer, "a whole number is allowed"),
    "boolean": (lambda value: isinstance(value, bool), "true or false is allowed"),
    "date": (_is_date, "a day such as 2025-01-31 is allowed"),
}
