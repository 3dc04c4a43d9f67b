"""Values a template works with, and what they are called in messages. Also text of an author that may be a template,
and text that SQL tools may use as it is.

Plain JSON values, times and lengths of time, ranges, tuples, views of the scope and Missing; nothing else can occur.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

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


# SQL marks: text that the SQL tools may put into a statement as it is, since the author said so (design.md §8).
#
# Marks live on the value only, and only as far as a caller asks to keep them; everywhere else it is plain text.


class SqlIdentifier(str):
    """A name, already quoted."""

    __slots__ = ()


class SqlFragment(str):
    """A piece of SQL the author vouches for."""

    __slots__ = ()


def identifier(name: Any) -> SqlIdentifier:
    """`name` quoted as an SQL identifier; a list of names is a qualified name."""
    parts = list(name) if isinstance(name, SEQUENCES) else [name]
    if not parts or not all(isinstance(part, str) and part and "\x00" not in part for part in parts):
        raise TemplateError(f"identifier needs a name or a list of names, not {described(name)}")
    return SqlIdentifier(".".join('"' + part.replace('"', '""') + '"' for part in parts))


# Headers of an HTTP answer, as templates read them: without regard to case, however they are asked for (TOOL-03).
#
# They are kept by lower-case name as plain data; nothing here knows where they came from.


class Headers(dict[str, Any]):
    """Headers by lower-case name. A view of itself: `headers['Retry-After']`, `headers.get('Retry-After')` and
    `'Retry-After' in headers` are about `retry-after`."""

    def lookup(self, name: str | int) -> Any:
        return self[str(name).lower()]

    def value(self) -> dict[str, Any]:
        return self

    def get(self, name: Any, default: Any = None) -> Any:
        return super().get(name.lower() if isinstance(name, str) else name, default)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name.lower() if isinstance(name, str) else name)


def with_headers(result: Any, *, wrapped: bool) -> Any:
    """The result of an HTTP call with its headers to be read so; any other as it is. A `wrapped` one has its payload
    under `data` (O-22), which what merely looks like such a result, of a python task say, has not."""
    if wrapped and isinstance(result, dict) and isinstance(result.get("headers"), dict):
        return {**result, "headers": Headers({str(name).lower(): value for name, value in result["headers"].items()})}
    return result


# Authored: a value a playbook's author wrote, in which text with `{{ … }}` is a template.
#
# Only what is wrapped in this type is ever rendered. Data (workload, results, messages) is never wrapped, so it
# can never be taken for a template: the rule is structural (reliability.md §2.1).


class Authored(msgspec.Struct, frozen=True, eq=True):
    """`data` is plain JSON data; `render` (templates.render) gives its value in a scope."""

    data: Any = None

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self.data))
