"""Schedules: when the clock starts a playbook, and how far that has gone (TMR-01).

They are kept beside the log, by the path of their playbook: the trigger of the version registered last, and what the
server has to remember between two moments.
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
    """The schedule of one playbook. Stored as JSON on the key-value table, and changed by compare and set."""

    path: str
    # The version registered last, whose net is started.
    version: int
    net_hash: str
    cron: str
    timezone: str = "UTC"
    missed: Missed = Missed.LAST  # what becomes of times that no server kept
    overlap: Overlap = Overlap.ALLOW  # what becomes of a time while the execution before goes on
    jitter_s: float = 0.0
    paused: bool = False
    # Times up to this one are settled, one way or another. It moves only after its executions are durable.
    kept: float
    running: str | None = None  # the execution that it started last
    queued: tuple[float, ...] = ()  # times that wait for that one to end
    skipped: int = 0  # how many were let go because of it


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a schedule to be run after the fact."""

    backfill_id: str
    path: str
    net_hash: str
    # As they were when it was asked for: a change of the schedule does not change what was promised.
    cron: str
    timezone: str
    kept: float  # times up to this one are settled
    until: float
    limit: int  # executions at once
    running: tuple[str, ...] = ()
    started: int = 0
    known: int = 0  # times that had run already: their executions have the same derived ids
