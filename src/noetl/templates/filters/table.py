"""The table of filters: an allow-list, and what each may be given.

Left out on purpose: `attr`, `pprint`, `urlize`, `xmlattr` (ways out of the sandbox, or expensive), `random`
(a replay would differ), `forceescape` (nothing here is HTML), and anything that would parse text
into another type (TPL-02).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.budget import Evaluation
from noetl.templates.filters import lists, scalars
from noetl.templates.output import extent, leave
from noetl.templates.values import Missing, unknown

Filter = Callable[..., Any]
_ENCODER_STEPS = 4  # an encoder is made for every text


def default(run: Evaluation, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    """Replaces undefined; with a true second argument also all that is empty, zero, false or null (O-12)."""
    if isinstance(value, Missing) or (boolean and not value):
        return default_value
    return value


def tojson(run: Evaluation, value: Any, indent: int | None = None) -> str:
    """JSON text, keys in their own order and no HTML escapes."""
    if isinstance(value, Missing):
        raise TemplateError(f'"{value.label}" is undefined and has no JSON form')
    if indent is not None and not 0 <= indent <= 8:
        raise TemplateError("tojson takes an indent from 0 to 8")
    plain = leave(run, value)
    size = extent(run, plain, {})
    run.fits(size.characters)
    run.spend(_ENCODER_STEPS + size.parts)
    if indent is not None:
        run.spend(2 * _ENCODER_STEPS)  # one that indents is written in Python
        run.fits(_indented(run, plain, indent, 1))
    try:
        return run.text(json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=indent))
    except ValueError:
        raise TemplateError("a number that is not finite has no JSON form") from None


def _indented(run: Evaluation, value: Any, indent: int, depth: int) -> int:
    """The blanks and line breaks that `indent` adds. Every part is handed through all the levels above it."""
    if not isinstance(value, dict | list):
        return 0
    run.spend(len(value) * (4 + depth))
    inner = value.values() if isinstance(value, dict) else value
    return (len(value) + 1) * (1 + indent * depth) + sum(_indented(run, item, indent, depth + 1) for item in inner)


def safe(run: Evaluation, value: Any) -> Any:
    """The value as it is: nothing is escaped here, and `| tojson | safe` is a habit from where everything is."""
    return value


def find(name: str) -> Filter:
    """The filter of that name. TemplateError when there is none."""
    found = FILTERS.get(name)
    if found is None:
        raise unknown("filter", name, FILTERS)
    return found


FILTERS: dict[str, Filter] = {
    "abs": scalars.absolute,
    "b64decode": scalars.b64decode,
    "b64encode": scalars.b64encode,
    "batch": lists.batch,
    "capitalize": scalars.capitalize,
    "center": scalars.center,
    "count": lists.length,
    "d": default,
    "default": default,
    "dictsort": lists.dictsort,
    "e": scalars.escape,
    "escape": scalars.escape,
    "filesizeformat": scalars.filesizeformat,
    "format": scalars.formatted,
    "first": lists.first,
    "float": scalars.floating,
    "groupby": lists.groupby,
    "identifier": scalars.identifier,
    "indent": scalars.indent,
    "int": scalars.integer,
    "items": lists.items,
    "join": lists.join,
    "last": lists.last,
    "length": lists.length,
    "list": lists.listed,
    "lower": scalars.lower,
    "map": lists.mapper(find),
    "max": lists.largest,
    "min": lists.smallest,
    "reject": lists.chooser(wanted=False, by_attribute=False),
    "rejectattr": lists.chooser(wanted=False, by_attribute=True),
    "replace": scalars.replace,
    "reverse": lists.reverse,
    "round": scalars.rounded,
    "safe": safe,
    "select": lists.chooser(wanted=True, by_attribute=False),
    "selectattr": lists.chooser(wanted=True, by_attribute=True),
    "slice": lists.sliced,
    "sort": lists.sort,
    "sql": scalars.sql,
    "string": scalars.string,
    "sum": lists.total,
    "title": scalars.title,
    "tojson": tojson,
    "trim": scalars.trim,
    "truncate": scalars.truncate,
    "unique": lists.unique,
    "upper": scalars.upper,
    "urlencode": scalars.urlencode,
    "wordcount": scalars.wordcount,
}

# These are about the elements of a list. A result that has one is that list to them, and a mapping to all others.
LIST_FILTERS = frozenset(
    {
        "batch",
        "count",
        "first",
        "groupby",
        "join",
        "last",
        "length",
        "list",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
    }
    | {"reverse", "select", "selectattr", "slice", "sort", "sum", "unique"}
)
