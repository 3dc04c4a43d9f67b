"""Answers: the common shape of the results of SQL tools (TOOL-05, C-48, RES-05), and the plain values in them."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from noetl.base.errors import ToolError

MAX_RESULT_BYTES = 64 << 20  # reliability.md §3.6
# The integer range of JSON readers in most languages.
_LARGEST = 1 << 63


class SqlAnswer(msgspec.Struct, frozen=True):
    """The result of one statement. `row_count` counts rows returned, or else rows touched."""

    rows: list[dict[str, Any]]
    columns: list[str]
    row_count: int


def result_of(answers: Sequence[SqlAnswer]) -> dict[str, Any]:
    """The result of a task: the last statement's rows, and every statement's as `command_0`, `command_1`, …"""
    last = answers[-1]
    each = {f"command_{index}": msgspec.to_builtins(answer) for index, answer in enumerate(answers)}
    return {"data": last.rows, "row_count": last.row_count, "columns": last.columns, **each}


class Allowance:
    """How much more a task may return: a larger result is an error before it fills the memory."""

    def __init__(self, max_rows: Any) -> None:
        if max_rows is not None and (isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1):
            raise ToolError("sql.input", f'spec.max_rows "{max_rows}" is not a number of rows')
        self._max_rows: int | None = max_rows
        self._bytes = MAX_RESULT_BYTES

    def take(self, rows: list[dict[str, Any]], count: int) -> None:
        """Count a batch; `count` is the number of rows that its statement has returned so far. Raises ToolError
        `result.too_large`."""
        check_rows(count, self._max_rows)
        self._bytes -= len(msgspec.json.encode(rows))
        if self._bytes < 0:
            raise _too_large(f"more than {MAX_RESULT_BYTES >> 20} MiB")


def check_rows(count: int, max_rows: int | None) -> None:
    """Raises ToolError `result.too_large` for more rows than `spec.max_rows`."""
    if max_rows is not None and count > max_rows:
        raise _too_large(f"more than {max_rows} rows, which is spec.max_rows")


def _too_large(what: str) -> ToolError:
    return ToolError("result.too_large", f"the SQL gives {what}: narrow it, page through it, or keep it in a table")


# Plain values: values of databases as lossless JSON data.
#
# A decimal is a number where a JSON number holds it exactly, else text with all its digits; NaN, infinities and
# integers past 64 bits are text too. Times are RFC 3339 (with `Z` where they know their zone), lengths of time ISO
# 8601, bytes base64.


def plain(value: Any) -> Any:
    """`value` as JSON data."""
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        return value if -_LARGEST <= value < _LARGEST else str(value)
    if kind is float:
        return value if math.isfinite(value) else _not_finite(value)
    made = _CONVERSIONS.get(kind)
    if made is not None:
        return made(value)
    return _container(value)


def _container(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> Any:
    if not value.is_finite():
        return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"
    if value == value.to_integral_value() and abs(value) < _LARGEST:
        return int(value)
    # A number only if the float, written out again, is the same decimal.
    number = float(value)
    return number if math.isfinite(number) and Decimal(repr(number)) == value else str(value)


def _time_text(value: datetime) -> str:
    if value.date() in (date.max, date.min):  # the notation of drivers for infinity
        return _day(value.date())
    return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _day(value: date) -> str:
    return "infinity" if value == date.max else "-infinity" if value == date.min else value.isoformat()


def _length(value: timedelta) -> str:
    """ISO 8601: days, and seconds within the day."""
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    seconds = f"{value.seconds}.{value.microseconds:06d}".rstrip("0").rstrip(".")
    days = f"{value.days}D" if value.days else ""
    clock = f"T{seconds}S" if seconds != "0" or not days else ""
    return f"{sign}P{days}{clock}"


def _bytes(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(bytes(value)).decode()


_CONVERSIONS: dict[type, Any] = {
    Decimal: _decimal,
    datetime: _time_text,
    date: _day,
    time: time.isoformat,
    timedelta: _length,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
}
