"""Filters on numbers, and to them."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import prices
from noetl.templates.budget import Evaluation
from noetl.templates.values import Missing, described, is_number, undefined_error

_MAX_DIGITS = 1_000
_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")
_BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")


def absolute(run: Evaluation, value: Any) -> Any:
    if isinstance(value, timedelta):
        return abs(value)
    return abs(_number(value, "abs"))


def integer(run: Evaluation, value: Any, default: Any = 0, base: int = 10) -> Any:
    """A whole number, or `default` where it is none; `'42.9' | int` is 42."""
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
    run.spend(2 + (prices.digits(number) if isinstance(number, int) else 0))
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
