"""Quarantine: if processing a record keeps failing, it is retried with backoff, so that all others go on
(reliability.md §2.7).

After enough failures it is an incident that an operator sees. It is still retried, but rarely.
"""

from __future__ import annotations

import logging

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import StoreOutageError

FAILURES = 5  # until it is an incident
FIRST_S = 1.0
LONGEST_S = 300.0
MOST = 10_000  # records remembered

_log = logging.getLogger(__name__)


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """`record` names what is broken; `failures` counts how often it was tried."""

    record: str
    problem: str
    failures: int
    since: float
    last: float


class Quarantine:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Failures by record. A record is any name: an execution id, `order@epoch` (claims.py), a job's record
        # (lost_work.py).
        self._noted: dict[str, Incident] = {}
        # Separate from the failures, since a record may have to wait without having failed.
        self._until: dict[str, float] = {}
        # Incidents that the lost_work has not put on the key-value table yet, where operators see them.
        self._unsaid: list[Incident] = []

    def holds(self, record: str) -> bool:
        """Whether the record must not be processed yet."""
        # Called for every claim: the empty case must cost nothing.
        return bool(self._until) and self._until.get(record, 0.0) > self._clock.now()

    def postpone(self, record: str, seconds: float) -> None:
        """Do not process it for this long, without counting a failure."""
        self._until[record] = self._clock.now() + seconds
        # A bound on memory: entries that have run out are only removed here.
        if len(self._until) > MOST:
            now = self._clock.now()
            self._until = {one: until for one, until in self._until.items() if until > now}

    def note(self, record: str, problem: BaseException) -> None:
        """It has failed. A store that is out of reach, or full, is no fault of the record: it is tried again soon."""
        if isinstance(problem, StoreOutageError):
            self.postpone(record, FIRST_S)
            return
        now, before = self._clock.now(), self._noted.get(record)
        failures = before.failures + 1 if before else 1
        text = f"{type(problem).__name__}: {problem}"
        since = before.since if before else now
        noted = self._noted[record] = Incident(record=record, problem=text, failures=failures, since=since, last=now)
        self.postpone(record, min(FIRST_S * 2 ** (failures - 1), LONGEST_S))
        _log.warning("%s failed %d times and is quarantined: %s", record, failures, text)
        # Once per incident, with the traceback; further failures are one line each.
        if failures == FAILURES:
            self._unsaid.append(noted)
            _log.error("%s is quarantined: %s", record, text, exc_info=problem)
        # The oldest is forgotten. It is noted again if it still fails.
        if len(self._noted) > MOST:
            del self._noted[next(iter(self._noted))]

    def clear(self, record: str) -> None:
        """It works again."""
        # A postponement without a failure stays: success elsewhere does not end it.
        if self._noted.pop(record, None) is not None:
            self._until.pop(record, None)

    @property
    def incidents(self) -> list[Incident]:
        return [one for one in self._noted.values() if one.failures >= FAILURES]

    def take_unsaid(self) -> list[Incident]:
        """Those that became incidents since this was asked last."""
        unsaid, self._unsaid = self._unsaid, []
        return unsaid
