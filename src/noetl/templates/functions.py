"""Functions: what can be called by name in a template. Nothing else is global (reliability.md §2.1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError
from noetl.templates.budget import Evaluation

MAX_RANGE = 100_000
_BOUND_BITS = 64  # each of its numbers would be long otherwise, and is made when it is looked at


def _range(run: Evaluation, *bounds: int) -> range:
    if not 1 <= len(bounds) <= 3 or not all(isinstance(bound, int) for bound in bounds):
        raise TemplateError("range() takes one to three whole numbers")
    if len(bounds) == 3 and bounds[2] == 0:
        raise TemplateError("the step of range() cannot be zero")
    if any(bound.bit_length() > _BOUND_BITS for bound in bounds):
        raise TemplateError(f"range() takes whole numbers of at most {_BOUND_BITS} bits")
    made = range(*bounds)
    if abs(made.stop - made.start) > abs(made.step) * MAX_RANGE:
        raise TemplateError(f"range() gives at most {MAX_RANGE:,} numbers")
    return made


def _dict(run: Evaluation, *pairs: Any, **entries: Any) -> Any:
    given = pairs[0] if pairs else {}
    if len(pairs) > 1 or not isinstance(given, dict):
        raise TemplateError("dict() takes one mapping, named values, or both")
    run.reserve(8 * (len(given) + len(entries)))
    return run.own({**given, **entries})


def _now(run: Evaluation) -> Any:
    return moment(run.now)


def _duration(run: Evaluation, text: Any) -> Any:
    return length(text)


FUNCTIONS: dict[str, Callable[..., Any]] = {"now": _now, "duration": _duration, "range": _range, "dict": _dict}


# Times and lengths of time in templates, and their plain forms (TPL-10).


def moment(now: float | None) -> datetime:
    """`now()`: the time the caller gave, never the clock's own."""
    if now is None:
        raise TemplateError("now() cannot be used here: this place is evaluated without a time")
    return datetime.fromtimestamp(now, UTC)


def length(value: object) -> timedelta:
    """`duration(text)`: the forms of TMR-03."""
    try:
        return timedelta(seconds=seconds(value))
    except ValueError as wrong:
        raise TemplateError(str(wrong)) from None


def moment_text(value: datetime) -> str:
    """RFC 3339 in UTC; fractions of a second only where there are any."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def length_seconds(value: timedelta) -> int | float:
    """Seconds, whole where they are whole."""
    total = value.total_seconds()
    return int(total) if total.is_integer() else total
