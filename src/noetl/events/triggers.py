"""Triggers and schedules: what starts a playbook by itself, something new or the clock, and how far that has gone.

They are kept beside the log. The definition of a trigger (`SourceTrigger`) and its state on the server
(`TriggerProgress`) are two records, so that pausing one never loses a cursor.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class SourceTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is the tool that looks, with `inputs`; secrets are in neither, `inputs.auth` names a credential. Each item
    starts the playbook at `path`; while `max_running` of its executions go on, nothing more is read."""

    trigger_id: str
    name: str
    kind: str
    inputs: dict[str, Any]
    path: str
    version: str | None = None  # the newest without one
    interval_s: float = 5.0  # between two looks that found nothing
    max_running: int = 10
    skip_existing: bool = False  # existing items start nothing
    paused: bool = False
    created_at: float
    created_by: str


class TriggerProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a trigger has come. `cursor` is behind every item that has its execution, or is a dead letter."""

    trigger_id: str
    cursor: Any = None
    is_current: bool = False  # existing items have been skipped
    running: tuple[str, ...] = ()  # executions that had not ended when it last looked
    started: int = 0
    dead: int = 0  # dead letters it has ever had
    failing: str | None = None  # the item that could not be started
    tries: int = 0  # of that item
    error: str | None = None  # why it does not get on, without secrets
    error_at: float | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An item that no execution could be started for. `value` is left out where it is too large to be kept."""

    item_id: str
    value: Any = None
    is_cut: bool = False
    error: str
    at: float
    retry: bool = False  # an operator wants it tried again


# Schedules: when the clock starts a playbook, and how far that has gone (TMR-01).
#
# They are kept beside the log, by the path of their playbook: the trigger of the version registered last, and what the
# server has to remember between two moments.


class Missed(StrEnum):
    """The treatment of scheduled times that passed while no server was running."""

    ALL = "all"
    LAST = "last"
    NONE = "none"


class Overlap(StrEnum):
    """The treatment of a time at which the previous run has not ended, or of that run (cancel)."""

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
    missed: Missed = Missed.LAST  # treatment of missed times
    overlap: Overlap = Overlap.ALLOW  # treatment of a time while the previous execution is open
    jitter_s: float = 0.0
    paused: bool = False
    # Times up to this one are settled, one way or another. It moves only after its executions are durable.
    kept: float
    running: str | None = None  # the execution that it started last
    running_for: float | None = None  # the time that this execution was started for
    queued: tuple[float, ...] = ()  # times that wait for that one to end
    skipped: int = 0  # how many were let go because of it
    missed_times: int = 0  # how many no server kept, and nothing was run for
    last_missed: float | None = None  # the latest of these


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
