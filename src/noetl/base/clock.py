"""One replaceable clock for the whole system (TMR-07).

Packages that decide never read it: they are given the time. Tests use `ManualClock` and move it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

from noetl.base.errors import InvalidError


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC."""


def uptime_s() -> float:
    """Seconds on a monotonic clock. If the system has one that also counts while the machine sleeps, that one is
    used, because leases expire during the sleep."""
    return time.clock_gettime(_NEVER_STOPS)


_NEVER_STOPS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    now = staticmethod(time.time)  # the function itself: a wrapper would cost a dozen more calls per step


class ManualClock:
    """A clock that does not move until a test advances it."""

    def __init__(self, start: float = 1_735_689_600.0) -> None:  # 2025-01-01T00:00:00Z
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


def moment(text: str, place: str) -> float:
    """Seconds since the epoch of an RFC 3339 time; without a zone it is UTC. InvalidError names `place`."""
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidError(f'{place}: "{text[:100]}" is not a time; write 2026-01-31T12:00:00Z') from None


def rfc3339(seconds: float) -> str:
    """The time as text, to the microsecond, in UTC. A time outside the range of dates becomes the first or the last
    date: one stored value out of range must not make a list unreadable."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError):
        # A timer may be set past the year 9999, which must not break the list that shows it.
        moment = datetime.max.replace(tzinfo=UTC) if seconds > 0 else datetime.min.replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
