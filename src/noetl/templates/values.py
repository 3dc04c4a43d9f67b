"""Values a template works with, and what they are called in messages.

Plain JSON values, times and lengths of time, ranges, tuples, views of the scope and Missing; nothing else can occur.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.undefined import Missing, clipped

SEQUENCES = (list, tuple, range)
_PLAIN = frozenset({str, int, float, bool, type(None), list, dict, tuple, range, datetime, timedelta, Missing})


def settled(value: Any) -> Any:
    """The value itself: a view is asked for its data, since an operator or filter is about to use all of it."""
    if type(value) in _PLAIN or not hasattr(value, "lookup"):
        return value
    return value.value()


def walked(value: Any) -> Any:
    """The value that a loop or a list filter walks through: of a view, the list that its payload is, if it is one; the
    fields around it (`row_count`, `headers`) are nobody's elements (TPL-07)."""
    listed = getattr(value, "listed", None)
    found = listed() if callable(listed) and hasattr(value, "lookup") else None
    return settled(value) if found is None else found


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def described(value: Any) -> str:
    """What a value is, for messages: its kind, never its content, which may be large or secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case dict():
            return "a mapping"
        case list() | tuple() | range():
            return "a list"
        case datetime():
            return "a time"
        case timedelta():
            return "a duration"
        case Missing():
            return f'"{value.label}", which is undefined'
        case _:
            return "a value"


def undefined_error(value: Missing) -> TemplateError:
    """The error of using something undefined where a value is needed (TPL-03)."""
    return TemplateError(f'"{value.label}" is undefined: give it a value with | default(…), or test it first')


def dunder_error(name: str) -> TemplateError:
    return TemplateError(
        f'"{clipped(name)}" cannot be read: names beginning with two underscores are closed to templates'
    )
