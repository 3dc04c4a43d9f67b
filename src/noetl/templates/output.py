"""From a value inside a template to plain JSON data, or to text (TPL-02, TPL-10).

Data of the scope leaves as it is, shared and unwalked: treat what a template gives as read-only. What the template
made is walked and weighed as if written out, so that shared parts cannot hide an exponentially large value.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from noetl.base.errors import TemplateError
from noetl.templates.budget import MAX_MADE_BYTES, MAX_VALUE_DEPTH, Evaluation
from noetl.templates.functions import length_seconds, moment_text
from noetl.templates.values import Missing, settled

_LARGEST_NAMESPACE = 32
_JSON = frozenset({str, int, float, bool, type(None), dict, list})


def leave(run: Evaluation, value: Any, *, marks: bool = False) -> Any:
    """`value` as plain JSON data. `marks` keeps SQL marks (`| identifier`, `| sql`) on text."""
    value = settled(value)
    if isinstance(value, dict | list) and not run.owns(value):
        return of_scope(value)
    if isinstance(value, dict | list | tuple | range):
        return _Walk(run, marks).leave(value, 0)
    return _scalar(value, marks)


def of_scope(value: Any) -> Any:
    """Data of the scope, as it is. A namespace such as `event` may hold views one level down: they are asked."""
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
        self._weigh(_characters(plain))
        return plain

    def _container(self, value: Any, depth: int) -> Any:
        if depth > MAX_VALUE_DEPTH:
            raise TemplateError(f"the result is nested more than {MAX_VALUE_DEPTH} deep")
        if not self._run.owns(value) and isinstance(value, dict | list):
            return self._shared(value)
        known = self._copies.get(id(value))
        if known is not None:
            self._weigh(known[1])
            return known[0]
        before = self._weight
        self._run.spend(2 + 2 * len(value))
        if isinstance(value, dict):
            copy: Any = {self._key(key): self.leave(item, depth + 1) for key, item in value.items()}
        else:
            copy = [self.leave(item, depth + 1) for item in value]
        self._weigh(2)
        self._copies[id(value)] = (copy, self._weight - before)
        return copy

    def _shared(self, value: Any) -> Any:
        """Data of the scope is free once; written out again and again it counts."""
        if id(value) in self._seen:
            self._weigh(extent(self._run, value, self._extents).characters)
        self._seen.add(id(value))
        self._run.spend(min(len(value), _LARGEST_NAMESPACE) >> 2)
        return of_scope(value)

    def _weigh(self, weight: int) -> None:
        self._weight += weight
        if self._weight > MAX_MADE_BYTES:
            raise TemplateError(f"the result is larger than {MAX_MADE_BYTES >> 20} MiB: use a python task for it")

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            self._weigh(len(key))
            return str(key)
        if isinstance(key, int | float) and not isinstance(key, bool):
            self._weigh(24)
            return str(key)
        raise TemplateError("the keys of a mapping must be text")


class Extent(NamedTuple):
    """How large a value is written out: about how many characters, and how many scalars and containers."""

    characters: int
    parts: int


def extent(run: Evaluation, value: Any, known: dict[int, Extent], depth: int = 0) -> Extent:
    """The extent of `value`; shared parts are walked once and counted each time."""
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
