"""Calls: what a task of kind `playbook` asks of the server, and what comes back (TOOL-11, O-08)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import Error


class PlaybookCall(msgspec.Struct, frozen=True, kw_only=True):
    """Start a playbook as the child of one task run, whose holder asks under its lease. The child's identity follows
    from the task run, so whoever asks again finds the same one. Without `wait` it is only started. `compensates`: undo
    what that execution had registered, instead (design.md §8)."""

    execution_id: str
    step_run_id: str
    order_id: str
    worker_id: str
    lease_epoch: int
    task_run_id: str
    path: str
    version: str | None = None
    payload: dict[str, Any] = {}
    return_step: str | None = None
    wait: bool = True
    compensates: str | None = None


class PlaybookCallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The child, and how it ended; `status` is "running" for one that was not waited for. `compensable`: it has
    registered what can be undone."""

    execution_id: str
    status: str
    data: Any = None
    error: Error | None = None
    compensable: bool = False
