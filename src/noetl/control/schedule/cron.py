"""Cron: the moments of a schedule in its zone, as seconds since the epoch (TMR-01).

Around a change of the clocks it does what Debian's cron does: a time of day that is skipped comes right after the gap,
one that there is twice comes once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim


def times(cron: str, timezone: str, *, after: float, until: float = math.inf) -> Iterator[float]:
    """The moments later than `after`, up to `until`, in order. They may end by themselves: some never come, and there
    are none before 1970."""
    for moment in CronSim(cron, datetime.fromtimestamp(max(0, int(after)), ZoneInfo(timezone))):
        found = moment.timestamp()
        if found > until:
            return
        if found > after:
            yield found


def newest_time(cron: str, timezone: str, *, after: float, until: float) -> float | None:
    """The last moment up to `until` that is later than `after`, however many there are between them."""
    start = datetime.fromtimestamp(int(until) + 1, ZoneInfo(timezone))
    for moment in CronSim(cron, start, reverse=True):
        if moment.timestamp() <= until:
            return moment.timestamp() if moment.timestamp() > after else None
    return None


def as_written(moment: float, timezone: str) -> str:
    """A moment as the people of the zone write it, with its offset."""
    return datetime.fromtimestamp(moment, ZoneInfo(timezone)).isoformat()
