"""Filters that pick and turn elements with another filter or test: map, select, reject and their kin.

The filter or test is named by text; the name is looked up in the same allow-lists as a written one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.attribute_access import ABSENT
from noetl.templates.budget import Evaluation
from noetl.templates.filters.lists import new_list, picked
from noetl.templates.iteration import elements
from noetl.templates.jinja_tests import predicate
from noetl.templates.values import settled

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
