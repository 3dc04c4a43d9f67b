"""Any value as the text a template puts between other text, the way Jinja2 writes it.

Undefined is nothing, true is `True`, null is `None`, lists and mappings look as in Python (`| tojson` gives JSON);
times are RFC 3339 and durations seconds (TPL-10).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import prices
from noetl.templates.budget import MAX_VALUE_DEPTH, Evaluation
from noetl.templates.functions import length_seconds, moment_text
from noetl.templates.output import extent
from noetl.templates.values import Missing, is_number, settled, undefined_error


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
    run.spend(prices.digits(value) if type(value) is int else 1)
    return _scalar(value)


def _scalar(value: Any) -> str:
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
        return repr(_scalar(value))
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
    values = _prepared(run, given, fields)
    items = list(values.values()) if isinstance(values, dict) else list(values)
    longest = max([_LONGEST_NUMBER, *(len(item) for item in items if isinstance(item, str))])
    widest = max([0, *(int(field["width"] or 0) for field in fields)])
    plain = sum(len(field.group()) for field in fields if field["kind"] == "%")
    run.fits(len(form) + plain + (widest + (longest if items else 0)) * len(fields))
    try:
        return run.text(form % values)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise TemplateError('the "%" format does not fit the values it was given') from None


def _prepared(run: Evaluation, given: Any, fields: list[re.Match[str]]) -> Any:
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
