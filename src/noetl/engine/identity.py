"""Ids that are derived from their cause, so that a repeated decision creates nothing new (O-05, TOK-06)."""

from __future__ import annotations

from functools import lru_cache

from noetl.base.ids import derived
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskStarted

SERVER = "server"  # the worker id of step runs that the server decides itself


def token_id_of(execution_id: str, source_event_id: str | None = None, arc: int | None = None, ordinal: int = 0) -> str:
    """The id of the token that an arc creates for an event; without event and arc, of the start token."""
    # The first token of an arc has no ordinal in its id: logs of older versions have such ids, and replaying a decision
    # must derive the same ones.
    further = (ordinal,) if ordinal else ()
    return derived("token", execution_id, source_event_id or "", "" if arc is None else arc, *further)


def fork_id_of(execution_id: str, source_event_id: str) -> str:
    """The id of the fork group of the tokens that one event creates."""
    return derived("fork", execution_id, source_event_id)


# Cached: the id is needed when a token is created and again when it is admitted, which is mostly the next decision.
@lru_cache(maxsize=1024)
def run_id_of(token_id: str) -> str:
    return derived("run", token_id)


def order_id_of(step_run_id: str) -> str:
    return derived("order", step_run_id)


def entry_key(entry: TaskStarted | KeychainRefreshed | HookFailed | JobPlaced, lease_epoch: int) -> str:
    """The key by which a repeated entry of a report is recognised (EVT-06).

    The lease epoch is part of it: the next holder of the order reports again that the task has started."""
    match entry:
        case TaskStarted():  # matched first, since every task run has one
            mark = entry.event_type
        case HookFailed() | JobPlaced():
            mark = entry.mark
        case KeychainRefreshed():
            # One task run may renew several secrets.
            mark = f"{entry.event_type} {entry.name}"
    return f"{lease_epoch} {entry.task_run_id} {mark}"
