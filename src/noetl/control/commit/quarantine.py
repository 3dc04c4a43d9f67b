"""Quarantine: a record that keeps failing is retried with backoff, and all others go on (reliability.md §2.7).

After five failures the record becomes an incident that operators see. It is still retried, every five minutes.
"""

from __future__ import annotations

import logging

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import StoreOutageError

FAILURES = 5  # until a record becomes an incident
FIRST_S = 1.0
LONGEST_S = 300.0
# Records kept in memory. A store that breaks on every execution must not fill the memory of its servers.
MOST = 10_000

_log = logging.getLogger(__name__)


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A record that keeps failing: `problem` is the last error, `failures` counts the attempts."""

    record: str
    problem: str
    failures: int
    since: float
    last: float


class Quarantine:
    """The records that failed and those that are postponed, in the memory of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Failures by record. A record is any name: an execution id, `order@epoch` (claims.py), a job's record
        # (lost_work.py).
        self._failed: dict[str, Incident] = {}
        # Separate from the failures, since a record may have to wait without having failed.
        self._until: dict[str, float] = {}
        # Incidents that `LostWork` has not written to the key-value table yet, where operators see them.
        self._unreported: list[Incident] = []

    def holds(self, record: str) -> bool:
        """Whether the record must not be processed yet."""
        # Called for every claim: the empty case must cost nothing.
        return bool(self._until) and self._until.get(record, 0.0) > self._clock.now()

    def postpone(self, record: str, seconds: float) -> None:
        """Hold the record for this long, without counting a failure."""
        self._until[record] = self._clock.now() + seconds
        # A bound on memory: entries that have run out are only removed here.
        if len(self._until) > MOST:
            now = self._clock.now()
            self._until = {held: until for held, until in self._until.items() if until > now}

    def note(self, record: str, problem: BaseException) -> None:
        """Count a failure of the record and hold it, twice as long each time. If the store itself is unreachable or
        full, no failure is counted and the record is retried soon."""
        if isinstance(problem, StoreOutageError):
            self.postpone(record, FIRST_S)
            return
        now, before = self._clock.now(), self._failed.get(record)
        failures = before.failures + 1 if before else 1
        text = f"{type(problem).__name__}: {problem}"
        since = before.since if before else now
        incident = Incident(record=record, problem=text, failures=failures, since=since, last=now)
        self._failed[record] = incident
        self.postpone(record, min(FIRST_S * 2 ** (failures - 1), LONGEST_S))
        _log.warning("%s failed %d times and is quarantined: %s", record, failures, text)
        # Once per incident, with the traceback; further failures are one line each.
        if failures == FAILURES:
            self._unreported.append(incident)
            _log.error("%s is quarantined: %s", record, text, exc_info=problem)
        # The oldest is forgotten. Its next failure counts as the first again.
        if len(self._failed) > MOST:
            del self._failed[next(iter(self._failed))]

    def clear(self, record: str) -> None:
        """The record was processed without an error."""
        # A postponement without a failure stays: success elsewhere does not end it.
        if self._failed.pop(record, None) is not None:
            self._until.pop(record, None)

    @property
    def incidents(self) -> list[Incident]:
        return [incident for incident in self._failed.values() if incident.failures >= FAILURES]

    def take_unreported(self) -> list[Incident]:
        """The incidents that are new since the last call."""
        unsaid, self._unreported = self._unreported, []
        return unsaid
