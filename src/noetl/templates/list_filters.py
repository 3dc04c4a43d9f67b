"""Filters on lists: cutting, ordering, folding. Every element is counted; results are lists, never generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import budget
from noetl.templates.arithmetic import operator
from noetl.templates.attribute_access import (
    ABSENT,
    AttributeGroup,
    attribute_path,
    attribute_text,
    elements,
    follow_path,
)
from noetl.templates.budget import Evaluation
from noetl.templates.functions import predicate
from noetl.templates.methods import join as join_text
from noetl.templates.output import written
from noetl.templates.values import SEQUENCES, Missing, described, is_number, settled

_MAX_PARTS = 10_000
_plus = operator("Add")


def first(run: Evaluation, value: Any) -> Any:
    # A list is not walked for its first element, so it is not paid for.
    items = value if isinstance(value, SEQUENCES) else elements(run, value)
    return items[0] if items else run.missing("first of an empty list")


def last(run: Evaluation, value: Any) -> Any:
    items = value if isinstance(value, SEQUENCES) else elements(run, value)
    return items[-1] if items else run.missing("last of an empty list")


def length(run: Evaluation, value: Any) -> int:
    if isinstance(value, Missing):
        return 0
    if isinstance(value, str | list | tuple | range | dict):
        return len(value)
    raise TemplateError(f"{described(value)} has no length")


def listed(run: Evaluation, value: Any) -> Any:
    return new_list(run, elements(run, value))


def new_list(run: Evaluation, items: Sequence[Any]) -> Any:
    """A new list of `items`, counted and remembered."""
    run.reserve(len(items))
    return run.own(list(items))


def join(run: Evaluation, value: Any, d: Any = "", attribute: Any = None) -> str:
    items = elements(run, value)
    if attribute is not None:
        items = picked(run, items, attribute)
    return join_text(run, written(run, d), items)


def picked(run: Evaluation, items: Sequence[Any], attribute: Any, default: Any = ABSENT) -> list[Any]:
    """The attribute of each item; missing where it is absent and there is no default."""
    path = attribute_path(attribute)
    run.reserve(len(items))
    found = (follow_path(run, item, path) for item in items)
    return [_or_missing(run, value, default, attribute) for value in found]


def _or_missing(run: Evaluation, value: Any, default: Any, attribute: Any) -> Any:
    if value is not ABSENT:
        return value
    return Missing(str(attribute)) if default is ABSENT else default


def reverse(run: Evaluation, value: Any) -> Any:
    if isinstance(value, str):
        run.fits(len(value))
        return run.text(run.read(value)[::-1])
    return new_list(run, elements(run, value)[::-1])


def batch(run: Evaluation, value: Any, linecount: int, fill_with: Any = None) -> Any:
    """Lists of `linecount` items; the last one filled up with `fill_with` if given."""
    items = elements(run, value)
    if not 1 <= linecount <= _MAX_PARTS:
        raise TemplateError(f"batch takes a size from 1 to {_MAX_PARTS:,}")
    run.spend(4 * (len(items) // linecount))
    rows = [new_list(run, items[start : start + linecount]) for start in range(0, len(items), linecount)]
    if rows and fill_with is not None and len(rows[-1]) < linecount:
        run.reserve(linecount)
        rows[-1].extend([fill_with] * (linecount - len(rows[-1])))
    return new_list(run, rows)


def sliced(run: Evaluation, value: Any, slices: int, fill_with: Any = None) -> Any:
    """`slices` lists of nearly equal length, in order."""
    items = elements(run, value)
    if not 1 <= slices <= _MAX_PARTS:
        raise TemplateError(f"slice takes a number of lists from 1 to {_MAX_PARTS:,}")
    each, longer = divmod(len(items), slices)
    rows, start = [], 0
    for index in range(slices):
        end = start + each + (index < longer)
        row = new_list(run, items[start:end])
        if fill_with is not None and longer and index >= longer:
            row.append(fill_with)
        rows.append(row)
        start = end
    return new_list(run, rows)


def total(run: Evaluation, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    items = elements(run, value)
    if attribute is not None:
        items = picked(run, items, attribute)
    result = start
    run.spend(2 * len(items))
    for item in items:
        result = _plus(run, result, item)
    return result


def unique(run: Evaluation, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    items = elements(run, value)
    groups = _group_positions(run, items, attribute, case_sensitive)
    return new_list(run, [items[index] for index in sorted(group[0] for group in groups)])


def smallest(run: Evaluation, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    items = sort(run, value, False, case_sensitive, attribute)
    return items[0] if items else run.missing("min of an empty list")


def largest(run: Evaluation, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    items = sort(run, value, True, case_sensitive, attribute)
    return items[0] if items else run.missing("max of an empty list")


def sort(
    run: Evaluation, value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: Any = None
) -> Any:
    items = elements(run, value)
    keys = sort_keys(run, items, attribute, case_sensitive)
    run.reserve(2 * len(items))
    # Places are sorted and not pairs: with equal keys Python would go on to compare the items, which may have no order.
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))
    return run.own([items[index] for index in order])


def _group_positions(run: Evaluation, items: Sequence[Any], attribute: Any, case_sensitive: bool) -> list[list[int]]:
    """The places of items with equal keys, by key. Keys are put in order and never hashed: whole numbers can be chosen
    so that all have one hash."""
    keys = sort_keys(run, items, attribute, case_sensitive)
    run.reserve(2 * len(items))
    groups: list[list[int]] = []
    for index in sorted(range(len(items)), key=keys.__getitem__):
        if groups and keys[groups[-1][0]] == keys[index]:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def dictsort(run: Evaluation, value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False) -> Any:
    """The pairs of a mapping, by key or by value."""
    if not isinstance(value, dict):
        raise TemplateError(f"dictsort needs a mapping, not {described(value)}")
    if by not in ("key", "value"):
        raise TemplateError("dictsort orders by key or by value")
    run.reserve(2 * len(value))
    pairs = list(value.items())
    return sort(run, pairs, reverse, case_sensitive, attribute=0 if by == "key" else 1)


def items(run: Evaluation, value: Any) -> Any:
    if isinstance(value, Missing):
        return new_list(run, ())
    if not isinstance(value, dict):
        raise TemplateError(f"items needs a mapping, not {described(value)}")
    run.reserve(2 * len(value))
    return run.own(list(value.items()))


def groupby(run: Evaluation, value: Any, attribute: Any, default: Any = ABSENT, case_sensitive: bool = False) -> Any:
    """Groups of items with an equal attribute, ordered by it: pairs of the value and its items."""
    items = elements(run, value)
    found = picked(run, items, attribute, default)
    groups = _group_positions(run, found, None, case_sensitive)
    for group in groups:
        run.reserve(len(group) + 2)
    return run.own(
        [AttributeGroup((settled(found[group[0]]), run.own([items[index] for index in group]))) for group in groups]
    )


def sort_keys(run: Evaluation, items: Sequence[Any], attribute: Any, case_sensitive: bool) -> list[Any]:
    """One comparable key per item, with the price of putting them in order paid; kinds do not mix within one list."""
    if isinstance(attribute, str) and "," in attribute_text(attribute):
        # Eight columns at most: each is a walk through all items.
        columns = [picked(run, items, part.strip()) for part in attribute.split(",")[:8]]
        items = list(zip(*columns, strict=True))
    elif attribute is not None:
        items = picked(run, items, attribute)
    run.reserve(2 * len(items))
    making = _SortKeys(run, case_sensitive)
    keys = [making.key(settled(item), 0) for item in items]
    run.spend(budget.sorting(len(items), making.weight))
    kinds = {key[0] for key in keys}
    if len(kinds - {""}) > 1:
        raise TemplateError(f"{' and '.join(sorted(kinds - {''}))} cannot be put in one order: convert them first")
    return keys


class _SortKeys:
    """Makes the keys of one list, and counts the parts that comparing two of them may have to look at."""

    def __init__(self, run: Evaluation, case_sensitive: bool) -> None:
        self._run = run
        self._case_sensitive = case_sensitive
        self.weight = 0

    def key(self, value: Any, depth: int) -> tuple[str, Any]:
        """The kind and a value of that kind. Undefined and null come first (kind "")."""
        self.weight += 1
        if value is None or isinstance(value, Missing):
            return "", isinstance(value, Missing)
        if isinstance(value, str):
            return "text", self._text(value)
        if is_number(value):
            return "numbers", value
        if isinstance(value, datetime):
            return "times", value
        if isinstance(value, timedelta):
            return "durations", value
        # A bound on the depth keeps the price of one comparison bounded as well.
        if isinstance(value, list | tuple | range) and depth < 4:
            self._run.spend(2 * len(value))
            self._run.reserve(2 * len(value))
            return "lists", tuple(self.key(settled(item), depth + 1) for item in value)
        raise TemplateError(f"{described(value)} has no order: name a field with attribute='…'")

    def _text(self, value: str) -> str:
        self.weight += len(value) >> 10
        self._run.fits(len(value))
        return self._run.read(value) if self._case_sensitive else self._run.text(value.lower())


# Filters that choose or convert elements with another filter or test: map, select, reject and their variants. The
# filter or test is named by text; the name is looked up in the same allow-lists as a written one.
Lookup = Callable[[str], Callable[..., Any]]


def mapper(find_filter: Lookup) -> Callable[..., Any]:
    """The `map` filter, over the filters that `find_filter` knows."""

    def mapped(
        run: Evaluation, value: Any, *args: Any, attribute: Any = None, default: Any = ABSENT, **options: Any
    ) -> Any:
        items = elements(run, value)
        if attribute is not None:
            return run.own(picked(run, items, attribute, default))
        if not args or not isinstance(args[0], str):
            raise TemplateError("map needs the name of a filter or attribute='…'")
        turn = find_filter(args[0])
        run.spend(4 * len(items))
        run.reserve(len(items))
        return run.own([turn(run, settled(item), *args[1:], **options) for item in items])

    return mapped


def chooser(wanted: bool, by_attribute: bool) -> Callable[..., Any]:
    """`select`, `reject`, `selectattr` or `rejectattr`."""

    def chosen(run: Evaluation, value: Any, *args: Any) -> Any:
        items = elements(run, value)
        if by_attribute and not args:
            raise TemplateError("name the attribute to look at, e.g. selectattr('active')")
        asked = picked(run, items, args[0]) if by_attribute else items
        test = args[1:] if by_attribute else args
        ask = _question(test)
        run.spend(4 * len(items))
        kept = [item for item, seen in zip(items, asked, strict=True) if ask(run, settled(seen)) is wanted]
        return new_list(run, kept)

    return chosen


def _question(test: tuple[Any, ...]) -> Callable[[Evaluation, Any], bool]:
    if not test:
        return lambda run, value: bool(value)
    if not isinstance(test[0], str):
        raise TemplateError("a test is named by text, e.g. select('odd')")
    ask = predicate(test[0])
    return lambda run, value: bool(ask(run, value, *test[1:]))
