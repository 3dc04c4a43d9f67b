"""The table of filters, an allow-list, and the filters on text and numbers; those on lists are in `list_filters.py`.

Other values are converted to text first, as in Jinja2.

Left out on purpose: `attr`, `pprint`, `urlize`, `xmlattr` (sandbox escapes, or expensive), `random` (a replay would
differ), `forceescape` (nothing here is HTML), and anything that would parse text into another type (TPL-02).
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import math
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from noetl.base.errors import TemplateError
from noetl.templates import budget, list_filters
from noetl.templates.attribute_access import elements
from noetl.templates.budget import Evaluation
from noetl.templates.methods import call_method
from noetl.templates.methods import replace as replace_text
from noetl.templates.output import extent, leave, percent_format, written
from noetl.templates.values import (
    Missing,
    SqlFragment,
    SqlIdentifier,
    described,
    is_number,
    undefined_error,
    unknown,
    walked,
)
from noetl.templates.values import identifier as quoted_identifier

_WORD_START = re.compile(r"([-\s({\[<]+)")
_MAX_INDENT = 1_000
_MARK_PASSES = 5  # each mark is counted and replaced on its own


Filter = Callable[..., Any]


def _method(name: str) -> Filter:
    """The filter that is the method `name` of text."""
    return lambda run, value: call_method(run, written(run, value), name, [])


def title(run: Evaluation, value: Any) -> str:
    text = written(run, value)
    run.spend(len(text))
    return run.text("".join(part[0].upper() + part[1:].lower() for part in _WORD_START.split(text) if part))


def trim(run: Evaluation, value: Any, chars: str | None = None) -> Any:
    return call_method(run, written(run, value), "strip", [chars])


def center(run: Evaluation, value: Any, width: int = 80) -> Any:
    return call_method(run, written(run, value), "center", [width])


def indent(run: Evaluation, value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Every line but the first (and empty ones) moved in by `width` blanks, or by the text given."""
    text = written(run, value)
    if isinstance(width, int) and not 0 <= width <= _MAX_INDENT:
        raise TemplateError(f"indent takes a width from 0 to {_MAX_INDENT:,}")
    prefix = " " * width if isinstance(width, int) else width
    lines = run.read(text).count("\n") + 1
    run.fits(len(text) + lines * len(prefix))
    run.spend(lines)
    head, *rest = text.split("\n")
    moved = "\n".join([head, *(prefix + line if line or blank else line for line in rest)])
    return run.text(prefix + moved if first else moved)


def formatted(run: Evaluation, value: Any, *values: Any, **named: Any) -> str:
    """`"%.2f" | format(x)`: the same as `"%.2f" % x`, as in Jinja2. The syntax of `str.format` is not supported."""
    return percent_format(run, written(run, value), named or values)


def replace(run: Evaluation, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    most = -1 if count is None else count
    return replace_text(run, written(run, value), written(run, old), written(run, new), most)


def truncate(
    run: Evaluation, value: Any, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5
) -> str:
    """At most `length` characters, `end` included; cut between words unless `killwords`."""
    text = written(run, value)
    if length < len(end):
        raise TemplateError(f"truncate needs a length of at least {len(end)} for its ending")
    if len(text) <= length + leeway:
        return text
    run.fits(length)
    kept = run.text(text[: length - len(end)])
    return run.text((kept if killwords else kept.rsplit(" ", 1)[0]) + end)


def wordcount(run: Evaluation, value: Any) -> int:
    return len(call_method(run, written(run, value), "split", []))


def escape(run: Evaluation, value: Any) -> str:
    """HTML-safe text."""
    text = written(run, value)
    run.fits(len(text))
    run.spend(_MARK_PASSES * budget.reading(text))
    # `&quot;` is the longest replacement for one character: five more.
    run.fits(len(text) + 5 * sum(text.count(mark) for mark in "&<>'\""))
    return run.text(html.escape(text))


def urlencode(run: Evaluation, value: Any) -> str:
    """Text quoted for a URL, or a mapping (or list of pairs) as a query string."""
    if isinstance(value, dict):
        run.spend(len(value))
        pairs: Any = list(value.items())
    elif isinstance(value, list | tuple):
        pairs = [tuple(elements(run, pair)) for pair in elements(run, value)]
        if any(len(pair) != 2 for pair in pairs):
            raise TemplateError("urlencode takes text, a mapping or a list of pairs")
    else:
        return _quoted(run, value, "/")
    query = "&".join(f"{_quoted(run, key, '')}={_quoted(run, item, '')}" for key, item in pairs)
    return run.text(query.replace("%20", "+"))


def _quoted(run: Evaluation, value: Any, safe: str) -> str:
    body = _encoded_json(run, value)
    # Each byte may become three characters, `%C3`.
    run.fits(3 * len(body))
    run.spend(2 + (len(body) >> 2))
    return run.text(quote(body, safe=safe))


def _encoded_json(run: Evaluation, value: Any) -> bytes:
    text = written(run, value)
    run.fits(len(text))
    return run.read(text).encode()


def b64encode(run: Evaluation, value: Any) -> str:
    body = _encoded_json(run, value)
    run.fits(4 * len(body) // 3)
    return run.text(base64.b64encode(body).decode())


def b64decode(run: Evaluation, value: Any) -> str:
    try:
        return run.text(base64.b64decode(run.read(written(run, value)), validate=True).decode())
    except (binascii.Error, ValueError):
        raise TemplateError("b64decode was given something that is not base64 of UTF-8 text") from None


def identifier(run: Evaluation, value: Any) -> SqlIdentifier:
    """An SQL name, quoted and marked (design.md §8)."""
    parts = elements(run, value) if isinstance(value, list | tuple) else [value]
    length = 0
    for part in parts:
        length += len(run.read(part)) if isinstance(part, str) else 1
        run.fits(length)
    made = quoted_identifier(value)
    run.text(made)
    return made


def sql(run: Evaluation, value: Any) -> SqlFragment:
    """A piece of SQL the author vouches for, marked (design.md §8)."""
    if not isinstance(value, str):
        raise TemplateError(f"sql marks text, not {described(value)}")
    return SqlFragment(run.text(value))


# Filters on numbers, and filters that convert to numbers.

_MAX_DIGITS = 1_000
_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")
_BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")


def absolute(run: Evaluation, value: Any) -> Any:
    if isinstance(value, timedelta):
        return abs(value)
    return abs(_number(value, "abs"))


def integer(run: Evaluation, value: Any, default: Any = 0, base: int = 10) -> Any:
    """A whole number, or `default` where it is none; `'42.9' | int` is 42."""
    # Longer texts are not intended as numbers, and reading one has quadratic cost.
    if not isinstance(value, str | int | float) or (isinstance(value, str) and len(value) > _MAX_DIGITS):
        return default
    run.spend(len(value) >> 4 if isinstance(value, str) else 0)
    try:
        return int(value, base) if isinstance(value, str) else int(value)
    except (ValueError, OverflowError):
        return _whole_part(value, default)


def _whole_part(value: Any, default: Any) -> Any:
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return default


def floating(run: Evaluation, value: Any, default: Any = 0.0) -> Any:
    """A number with a fraction, or `default` where it is none (or not finite)."""
    if not isinstance(value, str | int | float) or (isinstance(value, str) and len(value) > _MAX_DIGITS):
        return default
    run.spend(len(value) >> 4 if isinstance(value, str) else 0)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return default
    return number if math.isfinite(number) else default


def rounded(run: Evaluation, value: Any, precision: int = 0, method: str = "common") -> Any:
    number = _number(value, "round")
    if not isinstance(precision, int) or not -20 <= precision <= 20:
        raise TemplateError("round takes a precision from -20 to 20")
    run.spend(2 + (budget.digits(number) if isinstance(number, int) else 0))
    if method == "common":
        return round(number, precision)
    if method not in ("ceil", "floor"):
        raise TemplateError("round takes the method common, ceil or floor")
    return getattr(math, method)(number * 10**precision) / 10**precision


def filesizeformat(run: Evaluation, value: Any, binary: bool = False) -> str:
    """A size for people: `1300000 | filesizeformat` is `1.3 MB`."""
    run.spend(2)
    size = floating(run, value)
    base, units = (1024, _BINARY_UNITS) if binary else (1000, _UNITS)
    if size == 1:
        return "1 Byte"
    if size < base:
        return f"{int(size)} Bytes"
    power = min(int(math.log(size, base)), len(units))
    return f"{size / base**power:.1f} {units[power - 1]}"


def _number(value: Any, name: str) -> Any:
    if isinstance(value, Missing):
        raise undefined_error(value)
    if not is_number(value):
        raise TemplateError(f"{name} needs a number, not {described(value)}: convert it with | int or | float")
    return value


# The table, and filters that take any value.

_ENCODER_STEPS = 4  # an encoder is made for every text


def default(run: Evaluation, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    """Replaces undefined; with a true second argument also all that is empty, zero, false or null (O-12)."""
    if isinstance(value, Missing) or (boolean and not walked(value)):
        return default_value
    return value


def tojson(run: Evaluation, value: Any, indent: int | None = None) -> str:
    """JSON text, keys in their own order and no HTML escapes."""
    if isinstance(value, Missing):
        raise TemplateError(f'"{value.label}" is undefined and has no JSON form')
    if indent is not None and not 0 <= indent <= 8:
        raise TemplateError("tojson takes an indent from 0 to 8")
    plain = leave(run, value)
    # Weighed before it is encoded: a small value may hold one list a thousand times.
    size = extent(run, plain, {})
    run.fits(size.characters)
    run.spend(_ENCODER_STEPS + size.parts)
    if indent is not None:
        run.spend(2 * _ENCODER_STEPS)  # the encoder with indentation is written in Python
        run.fits(_indentation_size(run, plain, indent, 1))
    try:
        return run.text(json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=indent))
    except ValueError:
        raise TemplateError("a number that is not finite has no JSON form") from None


def _indentation_size(run: Evaluation, value: Any, indent: int, depth: int) -> int:
    """The blanks and line breaks that `indent` adds. Every part passes through all the levels above it."""
    if not isinstance(value, dict | list):
        return 0
    run.spend(len(value) * (4 + depth))
    inner = value.values() if isinstance(value, dict) else value
    return (len(value) + 1) * (1 + indent * depth) + sum(
        _indentation_size(run, item, indent, depth + 1) for item in inner
    )


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
    "abs": absolute,
    "b64decode": b64decode,
    "b64encode": b64encode,
    "batch": list_filters.batch,
    "capitalize": _method("capitalize"),
    "center": center,
    "count": list_filters.length,
    "d": default,
    "default": default,
    "dictsort": list_filters.dictsort,
    "e": escape,
    "escape": escape,
    "filesizeformat": filesizeformat,
    "format": formatted,
    "first": list_filters.first,
    "float": floating,
    "groupby": list_filters.groupby,
    "identifier": identifier,
    "indent": indent,
    "int": integer,
    "items": list_filters.items,
    "join": list_filters.join,
    "last": list_filters.last,
    "length": list_filters.length,
    "list": list_filters.listed,
    "lower": _method("lower"),
    "map": list_filters.mapper(find),
    "max": list_filters.largest,
    "min": list_filters.smallest,
    "reject": list_filters.chooser(wanted=False, by_attribute=False),
    "rejectattr": list_filters.chooser(wanted=False, by_attribute=True),
    "replace": replace,
    "reverse": list_filters.reverse,
    "round": rounded,
    "safe": safe,
    "select": list_filters.chooser(wanted=True, by_attribute=False),
    "selectattr": list_filters.chooser(wanted=True, by_attribute=True),
    "slice": list_filters.sliced,
    "sort": list_filters.sort,
    "sql": sql,
    "string": written,
    "sum": list_filters.total,
    "title": title,
    "tojson": tojson,
    "trim": trim,
    "truncate": truncate,
    "unique": list_filters.unique,
    "upper": _method("upper"),
    "urlencode": urlencode,
    "wordcount": wordcount,
}

# These are about the elements of a list. A result that has one is that list to them, and a mapping to all others.
_ON_ELEMENTS = (
    "batch count first groupby join last length list map max min reject rejectattr "
    "reverse select selectattr slice sort sum unique"
)
LIST_FILTERS = frozenset(_ON_ELEMENTS.split())
