"""Attribute access: the values of `a.b`, `a['b']`, `a[0]` and `a[1:3]`, and the elements for `for` and the list
filters.

Only data can be read: keys of mappings, elements of lists, fields of views and a few parts of times. No attribute of a
Python object is ever looked up by a template's word, so there is nothing to escape through (TPL-11). A key that is not
there, and anything read through undefined or null, is missing (TPL-03).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.budget import Evaluation
from noetl.templates.values import Missing, described, dunder_error, is_number, settled, undefined_error, walkable

ABSENT: Any = object()

_TIME_PARTS = frozenset({"year", "month", "day", "hour", "minute", "second", "microsecond"})
_DURATION_PARTS = frozenset({"days", "seconds", "microseconds"})
_GROUP_PARTS = {"grouper": 0, "list": 1}
_KEY_BITS = 64  # longer whole numbers can be chosen so that a mapping takes all of them for one (equal hashes)
_LONGEST_ATTRIBUTE = 1_000


class AttributeGroup(tuple[Any, Any]):
    """One group of `groupby`: a pair that also answers to `.grouper` and `.list`, as in Jinja2."""

    __slots__ = ()


def member(value: Any, key: Any) -> Any:
    """The value of `key` in `value`, or ABSENT. The key has been checked."""
    # Compared by exact class: this runs for every `.` of every template, and subclasses (groups, headers) are handled
    # below.
    kind = type(value)
    if kind is dict:
        return value.get(key, ABSENT)
    if kind is list or kind is tuple or kind is range or kind is str:
        return _element(value, key)
    if value is None or kind is Missing:
        return ABSENT
    if (kind is datetime and key in _TIME_PARTS) or (kind is timedelta and key in _DURATION_PARTS):
        return getattr(value, key)
    if kind is AttributeGroup:
        return value[_GROUP_PARTS[key]] if key in _GROUP_PARTS else _element(value, key)
    return _view_value(value, key)


def _element(value: Any, key: Any) -> Any:
    if type(key) is not int:
        return ABSENT
    try:
        return value[key]
    except IndexError:
        return ABSENT


def _view_value(value: Any, key: Any) -> Any:
    lookup = getattr(value, "lookup", None)
    if lookup is None or type(key) not in (str, int):
        return ABSENT
    try:
        return lookup(key)
    except KeyError:
        return ABSENT


def checked_key(key: Any) -> Any:
    """A computed key. TemplateError if the value cannot be a key (TPL-11)."""
    key = settled(key)
    if isinstance(key, Missing):
        raise undefined_error(key)
    if not isinstance(key, str | int | float):
        raise TemplateError(f"{described(key)} cannot be a key or an index: use text or a whole number")
    if isinstance(key, str) and key.startswith("__"):
        raise dunder_error(key)
    if isinstance(key, int) and key.bit_length() > _KEY_BITS:
        raise TemplateError(f"a number of more than {_KEY_BITS} bits cannot be a key or an index")
    return key


def follow_path(run: Evaluation, value: Any, path: tuple[str | int, ...]) -> Any:
    """Follow `path` from `value`, for `attribute='a.b'` of filters; ABSENT when it ends early."""
    run.spend(len(path))
    for key in path:
        value = member(value, key)
        if value is ABSENT:
            return ABSENT
    return value


def attribute_path(attribute: Any) -> tuple[str | int, ...]:
    """The path that `attribute='a.0.b'` names; a number is an index."""
    if is_number(attribute):
        # For a long number each message about a missing index would print its digits, at quadratic cost.
        return (checked_key(int(attribute)),)
    parts = attribute_text(attribute).split(".")
    for part in parts:
        if part.startswith("__"):
            raise dunder_error(part)
    # No list has an index of ten digits, and `int` of a long text costs the square of its length.
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else part for part in parts)


def attribute_text(attribute: Any) -> str:
    """The path in `attribute='…'`, refused if it is not text or too long."""
    if not isinstance(attribute, str):
        raise TemplateError("attribute must be text, e.g. attribute='name'")
    if len(attribute) > _LONGEST_ATTRIBUTE:
        raise TemplateError(f"attribute may have at most {_LONGEST_ATTRIBUTE:,} characters")
    return attribute


def sliced(run: Evaluation, value: Any, start: Any, stop: Any, step: Any) -> Any:
    """`value[start:stop:step]` of text or a list; of undefined or null it is missing."""
    value = settled(value)
    if value is None or isinstance(value, Missing):
        return ABSENT
    if not isinstance(value, str | list | tuple | range):
        raise TemplateError(f"{described(value)} cannot be cut with [ : ]: only text and lists can")
    part = slice(*(_slice_bound(bound) for bound in (start, stop, step)))
    if part.step == 0:
        raise TemplateError("the step of a slice cannot be zero")
    if isinstance(value, str):
        # How long the slice will be, without making it.
        run.fits(len(range(*part.indices(len(value)))))
        return run.text(value[part])
    run.reserve(len(range(*part.indices(len(value)))))
    return run.own(list(value[part]))


def _slice_bound(bound: Any) -> int | None:
    bound = settled(bound)
    if bound is None or isinstance(bound, int):
        return bound
    if isinstance(bound, Missing):
        raise undefined_error(bound)
    raise TemplateError(f"the bounds of a slice are whole numbers, not {described(bound)}")


# Iterating. Every iteration is counted before it starts, so a loop over a large range is an error and not a long wait.


def elements(run: Evaluation, value: Any) -> Sequence[Any]:
    """The elements of iterating over `value`: elements, keys of a mapping, characters; nothing for undefined."""
    value = walkable(value)
    if isinstance(value, Missing):
        return ()
    if isinstance(value, list | tuple | range):
        run.spend(1 + len(value))
        return value
    if isinstance(value, dict | str):
        run.spend(len(value))
        run.reserve(len(value))
        return list(value)
    raise TemplateError(f"{described(value)} cannot be walked through: only lists, mappings and text can")


class LoopVariable:
    """`loop` inside a `for` body."""

    __slots__ = ("_index", "_items")

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items
        self._index = 0

    def move(self, index: int) -> None:
        self._index = index

    def cycle(self, *choices: Any) -> Any:
        if not choices:
            raise TemplateError("loop.cycle() needs values to go round, e.g. loop.cycle('odd', 'even')")
        return choices[self._index % len(choices)]

    def lookup(self, name: str | int) -> Any:
        index, total = self._index, len(self._items)
        match name:
            case "index":
                return index + 1
            case "index0":
                return index
            case "revindex":
                return total - index
            case "revindex0":
                return total - index - 1
            case "first":
                return index == 0
            case "last":
                return index == total - 1
            case "length":
                return total
            case "previtem" if index > 0:
                return self._items[index - 1]
            case "nextitem" if index + 1 < total:
                return self._items[index + 1]
        raise KeyError(name)

    def value(self) -> Any:
        names = ("index", "index0", "first", "last", "length")
        return {name: self.lookup(name) for name in names}
