"""Any value as the text a template puts between other text, the way Jinja2 writes it.

Undefined is nothing, true is `True`, null is `None`, lists and mappings look as in Python (`| tojson` gives JSON);
times are RFC 3339 and durations seconds (TPL-10).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import prices
from noetl.templates.budget import MAX_VALUE_DEPTH, Evaluation
from noetl.templates.output import extent
from noetl.templates.time_functions import length_seconds, moment_text
from noetl.templates.undefined import Missing
from noetl.templates.values import settled


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
