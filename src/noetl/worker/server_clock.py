"""The server's clock, as far as a worker can tell it: its own, set right by the `Date` of the server's answers.

Deadlines travel as moments (WRK-07). A worker whose clock is an hour off would stop every step at once, or never.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from noetl.base.clock import Clock

_TOLERANCE_S = 10.0  # the header counts seconds, and an answer may take its time; this is for clocks that are wrong


class ServerClock:
    def __init__(self, own: Clock) -> None:
        self._own = own
        self.ahead_s = 0.0  # of the server before this machine

    def now(self) -> float:
        return self._own.now() + self.ahead_s

    def note_server_time(self, date: str | None) -> None:
        """An answer that was sent at `date` has just come: a header as HTTP has it, or seconds since the epoch."""
        if date is None:
            return
        try:
            there = float(date) if date[:1].isdigit() else parsedate_to_datetime(date).timestamp() + 0.5
        except (TypeError, ValueError):
            return
        ahead_s = there - self._own.now()
        if abs(ahead_s - self.ahead_s) > _TOLERANCE_S:
            self.ahead_s = ahead_s if abs(ahead_s) > _TOLERANCE_S else 0.0
