"""Identities that follow from their cause, so that a repeated decision makes nothing new (O-05, TOK-06)."""

from __future__ import annotations

from functools import lru_cache

from noetl.base.ids import derived
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskStarted

SERVER = "server"  # the worker id of what is decided in place


def token_id_of(execution_id: str, source_event_id: str | None = None, arc: int | None = None, ordinal: int = 0) -> str:
    """Of the token an arc makes on an event, the first of them or another; with neither, of the start token."""
    # Left out for the first: ids of tokens that older programs derived stay the same.
    further = (ordinal,) if ordinal else ()
    return derived("token", execution_id, source_event_id or "", "" if arc is None else arc, *further)


def fork_id_of(execution_id: str, source_event_id: str) -> str:
    """Of the group that the tokens of one firing make."""
    return derived("fork", execution_id, source_event_id)


@lru_cache(maxsize=1024)  # asked for when the token is made and when it is admitted, a moment later
def run_id_of(token_id: str) -> str:
    return derived("run", token_id)


def order_id_of(step_run_id: str) -> str:
    return derived("order", step_run_id)


def entry_mark(entry: TaskStarted | KeychainRefreshed | HookFailed | JobPlaced, lease_epoch: int) -> str:
    """What a reported entry is known by when it comes again: a task run may renew several secrets, and whoever holds
    the next lease tells anew that it begins (EVT-06)."""
    match entry:
        case TaskStarted():  # first, since every task run has one
            mark = entry.event_type
        case HookFailed() | JobPlaced():
            mark = entry.mark
        case KeychainRefreshed():
            mark = f"{entry.event_type} {entry.name}"
    return f"{lease_epoch} {entry.task_run_id} {mark}"
