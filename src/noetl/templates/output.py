"""From a value inside a template to plain JSON data, or to text (TPL-02, TPL-10).

Data of the scope is returned shared and unchecked: treat the value of a template as read-only. Values made by the
template are checked and counted as if written out, so that shared parts cannot hide an exponentially large value.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from noetl.base.errors import TemplateError
from noetl.templates import budget
from noetl.templates.budget import MAX_MADE_BYTES, MAX_VALUE_DEPTH, Evaluation
from noetl.templates.functions import length_seconds, moment_text
from noetl.templates.values import Missing, is_number, settled, undefined_error

_LARGEST_NAMESPACE = 32
_JSON = frozenset({str, int, float, bool, type(None), dict, list})


def leave(run: Evaluation, value: Any, *, marks: bool = False) -> Any:
    """`value` as plain JSON data. `marks` keeps SQL marks (`| identifier`, `| sql`) on text."""
    value = settled(value)
    # Data of the scope is plain already: walking a result of megabytes for `{{ step }}` is saved.
    if isinstance(value, dict | list) and not run.owns(value):
        return of_scope(value)
    if isinstance(value, dict | list | tuple | range):
        return _Walk(run, marks).leave(value, 0)
    return _scalar(value, marks)


def of_scope(value: Any) -> Any:
    """Data of the scope, as it is. A namespace such as `event` may hold views one level down: they are asked."""
    # Namespaces have a dozen names; a larger mapping is data, and data contains no views.
    if type(value) is not dict or len(value) > _LARGEST_NAMESPACE:
        return value
    if all(type(item) in _JSON for item in value.values()):
        return value
    return {key: _scalar(settled(item), False) for key, item in value.items()}


def _scalar(value: Any, marks: bool) -> Any:
    match value:
        case Missing():
            return None
        case float() if not math.isfinite(value):
            raise TemplateError("the result is not a finite number, which JSON cannot hold")
        case datetime():
            return moment_text(value)
        case timedelta():
            return length_seconds(value)
        # A subclass carries a mark for SQL; outside of SQL it is plain text, and encoders want the exact class.
        case str() if not marks and type(value) is not str:
            return str.__str__(value)
        case _:
            return value


class _Walk:
    """Copies what the template made; parts that occur again are copied once and weighed each time."""

    def __init__(self, run: Evaluation, marks: bool) -> None:
        self._run = run
        self._marks = marks
        self._copies: dict[int, tuple[Any, int]] = {}
        self._extents: dict[int, Extent] = {}
        self._seen: set[int] = set()
        self._weight = 0

    def leave(self, value: Any, depth: int) -> Any:
        value = settled(value)
        if isinstance(value, dict | list | tuple | range):
            return self._container(value, depth)
        plain = _scalar(value, self._marks)
        self._add_weight(_characters(plain))
        return plain

    def _container(self, value: Any, depth: int) -> Any:
        if depth > MAX_VALUE_DEPTH:
            raise TemplateError(f"the result is nested more than {MAX_VALUE_DEPTH} deep")
        if not self._run.owns(value) and isinstance(value, dict | list):
            return self._shared(value)
        known = self._copies.get(id(value))
        if known is not None:
            self._add_weight(known[1])
            return known[0]
        before = self._weight
        self._run.spend(2 + 2 * len(value))
        if isinstance(value, dict):
            copy: Any = {self._key(key): self.leave(item, depth + 1) for key, item in value.items()}
        else:
            copy = [self.leave(item, depth + 1) for item in value]
        self._add_weight(2)
        self._copies[id(value)] = (copy, self._weight - before)
        return copy

    def _shared(self, value: Any) -> Any:
        """Data of the scope is free once; written out again and again it counts."""
        if id(value) in self._seen:
            self._add_weight(extent(self._run, value, self._extents).characters)
        self._seen.add(id(value))
        # `of_scope` looks at no more entries than that.
        self._run.spend(min(len(value), _LARGEST_NAMESPACE) >> 2)
        return of_scope(value)

    def _add_weight(self, weight: int) -> None:
        self._weight += weight
        if self._weight > MAX_MADE_BYTES:
            raise TemplateError(f"the result is larger than {MAX_MADE_BYTES >> 20} MiB: use a python task for it")

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            self._add_weight(len(key))
            return str(key)
        if isinstance(key, int | float) and not isinstance(key, bool):
            self._add_weight(24)
            return str(key)
        raise TemplateError("the keys of a mapping must be text")


class Extent(NamedTuple):
    """How large a value is written out: about how many characters, and how many scalars and containers."""

    characters: int
    parts: int


def extent(run: Evaluation, value: Any, known: dict[int, Extent], depth: int = 0) -> Extent:
    """The extent of `value`; shared parts are walked once and counted each time."""
    value = settled(value)
    if isinstance(value, range):
        return Extent(8 * len(value), len(value))
    if not isinstance(value, dict | list | tuple):
        return Extent(_characters(value), 1)
    if depth > MAX_VALUE_DEPTH:
        raise TemplateError(f"a value is nested more than {MAX_VALUE_DEPTH} deep")
    found = known.get(id(value))
    if found is None:
        run.spend(1 + len(value) * (2 if isinstance(value, dict) else 1))
        characters, parts = 2, 1
        for item in _items(value):
            inner = extent(run, item, known, depth + 1)
            characters, parts = characters + inner[0], parts + inner[1]
        found = known[id(value)] = Extent(characters, parts)
    return found


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value) + 2
    return max(8, value.bit_length() // 3) if type(value) is int else 8


def _items(value: Any) -> Any:
    return [*value.keys(), *value.values()] if isinstance(value, dict) else value


# Any value as the text a template puts between other text, the way Jinja2 writes it.
#
# Undefined is nothing, true is `True`, null is `None`, lists and mappings look as in Python (`| tojson` gives JSON);
# times are RFC 3339 and durations seconds (TPL-10).


def written(run: Evaluation, value: Any) -> str:
    """`value` as text, within the budgets of `run`."""
    value = settled(value)
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | tuple | range):
        run.fits(extent(run, value, {}).characters)
        return run.text(_container(run, value, 0))
    return _written_scalar(run, value)


def _written_scalar(run: Evaluation, value: Any) -> str:
    run.spend(budget.digits(value) if type(value) is int else 1)
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    match value:
        case Missing():
            return ""
        case datetime():
            return moment_text(value)
        case timedelta():
            return str(length_seconds(value))
        case _:
            return str(value)


def _container(run: Evaluation, value: Any, depth: int) -> str:
    if depth > MAX_VALUE_DEPTH:
        raise TemplateError(f"a value is nested more than {MAX_VALUE_DEPTH} deep")
    run.spend(4 + 3 * len(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_item(run, item, depth)}" for key, item in value.items()) + "}"
    inner = ", ".join(_item(run, item, depth) for item in value)
    if isinstance(value, tuple):
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return f"[{inner}]"


def _item(run: Evaluation, value: Any, depth: int) -> str:
    value = settled(value)
    if isinstance(value, dict | list | tuple | range):
        return _container(run, value, depth + 1)
    if isinstance(value, str | datetime):
        return repr(_scalar_text(value))
    return "None" if isinstance(value, Missing) else _written_scalar(run, value)


# Formatting with `%`: the classic form only, bounded in width and number (reliability.md §2.1).

_FIELD = re.compile(r"%(?:\([^()%]{1,200}\))?[-+ 0#]{0,5}(?P<width>\d{0,3})(?:\.\d{1,2})?(?P<kind>[dixXoeEfFgGs%])")
_MAX_SIGNS = 500
_FIELD_STEPS = 16  # a number with 99 digits behind the point takes some microseconds
_LONGEST_NUMBER = 1_300  # digits of the largest integer allowed, and more than any float


def percent_format(run: Evaluation, form: str, given: Any) -> str:
    """`form % given`, e.g. `'%05.2f' % n`."""
    if run.read(form).count("%") > _MAX_SIGNS:
        raise TemplateError(f'a "%" format may have at most {_MAX_SIGNS:,} fields')
    fields = list(_FIELD.finditer(form))
    if "%" in _FIELD.sub("", form):
        raise TemplateError(
            'this "%" format is not supported: fields are like %s, %5d, %.2f or %(name)s, no wider than 999'
        )
    run.spend(_FIELD_STEPS * len(fields))
    values = _percent_operands(run, given, fields)
    items = list(values.values()) if isinstance(values, dict) else list(values)
    longest = max([_LONGEST_NUMBER, *(len(item) for item in items if isinstance(item, str))])
    widest = max([0, *(int(field["width"] or 0) for field in fields)])
    plain = sum(len(field.group()) for field in fields if field["kind"] == "%")
    # An upper bound: every field as wide as the widest, and every value as long as the longest.
    run.fits(len(form) + plain + (widest + (longest if items else 0)) * len(fields))
    try:
        return run.text(form % values)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise TemplateError('the "%" format does not fit the values it was given') from None


def _percent_operands(run: Evaluation, given: Any, fields: list[re.Match[str]]) -> Any:
    """Values as `%` may see them: numbers and text only. A mapping is one value where no field names a key."""
    if isinstance(given, dict) and all(field.group().startswith("%(") for field in fields if field["kind"] != "%"):
        run.reserve(len(given))
        return {key: _field_value(run, item) for key, item in given.items()}
    if isinstance(given, tuple):
        run.reserve(len(given))
        return tuple(_field_value(run, item) for item in given)
    return (_field_value(run, given),)


def _field_value(run: Evaluation, item: Any) -> Any:
    item = settled(item)
    if isinstance(item, Missing):
        raise undefined_error(item)
    return item if is_number(item) else written(run, item)
