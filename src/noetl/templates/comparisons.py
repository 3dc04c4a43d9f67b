"""Comparing: equality, order and membership as templates mean them (TPL-03).

- Undefined equals only undefined; every order with it and every `in` test with it is false.
- Null is a value and equals null, but it has no order either: `null > 1` and `1 in null` are false, so that a
  transport failure (`outcome.http.status` null, O-12) does not match `>= 500` and does not break the rule.
- Other kinds do not mix in an order: `"5" > 3` is an error, since a silent false would hide the mistake.
- Lists are equal or ordered element by element, every element counted, so that shared parts cost what they weigh.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from operator import ge, gt, le, lt
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import budget
from noetl.templates.budget import MAX_VALUE_DEPTH, Evaluation
from noetl.templates.values import SEQUENCES, Missing, described, is_number, settled

_LONG_TEXT = 64  # comparing longer ones costs more than the one step that is counted for an element

ORDERS: dict[str, Callable[[Any, Any], bool]] = {"lt": lt, "lteq": le, "gt": gt, "gteq": ge}


def equal(run: Evaluation, left: Any, right: Any, depth: int = 0) -> bool:
    left, right = settled(left), settled(right)
    run.spend(1)
    if isinstance(left, Missing) or isinstance(right, Missing):
        return isinstance(left, Missing) and isinstance(right, Missing)
    if isinstance(left, SEQUENCES) and isinstance(right, SEQUENCES):
        return len(left) == len(right) and all(_equal_items(run, zip(left, right, strict=True), depth))
    if isinstance(left, dict) and isinstance(right, dict):
        if len(left) != len(right):
            return False
        run.spend(len(left))
        run.spend(budget.keys(left))
        if left.keys() != right.keys():
            return False
        return all(_equal_items(run, ((item, right[key]) for key, item in left.items()), depth))
    if isinstance(left, str) and isinstance(right, str):
        run.spend(budget.comparing(left, right))
    return bool(left == right)


def _equal_items(run: Evaluation, pairs: Any, depth: int) -> Any:
    if depth > MAX_VALUE_DEPTH:
        raise TemplateError(f"values nested more than {MAX_VALUE_DEPTH} deep cannot be compared")
    for left, right in pairs:
        # Five: a call of `equal` for each pair of elements.
        run.spend(5)
        yield equal(run, left, right, depth + 1)


def ordered(run: Evaluation, order: str, left: Any, right: Any) -> bool:
    """`left < right` and the other orders; `order` is a key of ORDERS."""
    left, right = settled(left), settled(right)
    if left is None or right is None or isinstance(left, Missing) or isinstance(right, Missing):
        return False
    if isinstance(left, SEQUENCES) and isinstance(right, SEQUENCES):
        return _lists_ordered(run, order, left, right)
    if isinstance(left, str) and isinstance(right, str):
        run.read(min(left, right, key=len))
    if not _comparable(left, right):
        raise TemplateError(
            f"{described(left)} cannot be compared with {described(right)}: convert one, e.g. with | int or | string"
        )
    return ORDERS[order](left, right)


def _comparable(left: Any, right: Any) -> bool:
    if is_number(left):
        return is_number(right)
    return any(isinstance(left, kind) and isinstance(right, kind) for kind in (str, datetime, timedelta))


def _lists_ordered(run: Evaluation, order: str, left: Any, right: Any) -> bool:
    for a, b in zip(left, right, strict=False):
        run.spend(2)
        if not equal(run, a, b):
            return ordered(run, order, a, b)
    return ORDERS[order](len(left), len(right))


def contains(run: Evaluation, item: Any, box: Any) -> bool:
    """`item in box`."""
    item, box = settled(item), settled(box)
    if isinstance(item, Missing) or box is None or isinstance(box, Missing):
        return False
    if isinstance(box, str):
        return _within_text(run, item, box)
    if isinstance(box, dict):
        run.spend(1 + budget.key(item))
        # An unhashable value is not a key; Python would raise.
        return not isinstance(item, dict | list | tuple | range) and item in box
    if isinstance(box, SEQUENCES):
        return _within_list(run, item, box)
    raise TemplateError(f'"in" needs a list, a mapping or text on its right, not {described(box)}')


def _within_text(run: Evaluation, item: Any, box: str) -> bool:
    if item is None:
        return False
    if not isinstance(item, str):
        raise TemplateError(f'"in" looks for text within text, not for {described(item)}')
    run.spend(budget.searching(box, item))
    return item in box


def _within_list(run: Evaluation, item: Any, box: Any) -> bool:
    # One by one, as shared parts must be counted each time; Python's own `in` would compare them uncounted.
    if isinstance(item, dict | list | tuple | range):
        return any(equal(run, item, other) for other in box)
    run.spend(1 + (len(box) >> 2))
    if isinstance(item, str) and len(item) > _LONG_TEXT:
        run.spend(len(box))
        for other in box:
            run.spend(budget.comparing(item, other) if isinstance(other, str) else 0)
    return item in box
