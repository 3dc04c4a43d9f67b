"""Times and lengths of time in templates, and their plain forms (TPL-10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError


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
