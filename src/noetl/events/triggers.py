"""Triggers: where new things are looked for that start a playbook, and how far that has gone.

They are kept beside the log. What people say of a trigger (`SourceTrigger`) and what the server remembers of it
(`TriggerProgress`) are two records, so that pausing one never loses a cursor.
"""

from __future__ import annotations

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
    skip_existing: bool = False  # what is there at its beginning starts nothing
    paused: bool = False
    created_at: float
    created_by: str


class TriggerProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a trigger has come. `cursor` is behind every item that has its execution, or is a dead letter."""

    trigger_id: str
    cursor: Any = None
    is_current: bool = False  # what was there at its beginning has been passed over
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
    retry: bool = False  # somebody wants it tried again
