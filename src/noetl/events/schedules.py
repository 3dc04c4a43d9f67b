"""Schedules: when the clock starts a playbook, and how far that has gone (TMR-01).

They are kept beside the log, by the path of their playbook: the trigger of the version registered last, and what the
clockwork has to remember between two moments.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Missed(StrEnum):
    """What becomes of times that passed while nobody was there to keep them."""

    ALL = "all"
    LAST = "last"
    NONE = "none"


class Overlap(StrEnum):
    """What becomes of a time at which the run before has not ended; or of that run (cancel)."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of one playbook. Times up to `kept` are settled, one way or another. `running` is the execution it
    started last, `queued` are times that wait for that one to end. `skipped` counts those that were let go because of
    it."""

    path: str
    version: int
    net_hash: str
    cron: str
    timezone: str = "UTC"
    missed: Missed = Missed.LAST
    overlap: Overlap = Overlap.ALLOW
    jitter_s: float = 0.0
    paused: bool = False
    kept: float
    running: str | None = None
    queued: tuple[float, ...] = ()
    skipped: int = 0


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a schedule to be run after the fact: those up to `until` that come after `kept`, at most `limit` of them
    at once. `started` and `known` count what it has begun and what had run already."""

    backfill_id: str
    path: str
    net_hash: str
    cron: str
    timezone: str
    kept: float
    until: float
    limit: int
    running: tuple[str, ...] = ()
    started: int = 0
    known: int = 0
