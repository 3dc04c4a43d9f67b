"""Commands: what somebody asks of the engine. Each carries the time, since the engine reads no clock."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.records.orders import Report
from noetl.records.outcomes import Error


class StartExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Begin: the playbook is already loaded, checked and its keychain resolved (SRV-01). `refused`: it did not
    resolve, and the execution ends where it begins (KEY-02). `depth` counts the playbooks around a nested one
    (TOOL-11); one whose parent is `paused` begins so."""

    at: float
    net_hash: str
    payload: dict[str, Any] = {}
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0
    paused: bool = False
    refused: Error | None = None


class ClaimOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A worker takes an order. `seen_epoch` is the lease the shell found ended, 0 for an order never leased."""

    at: float
    order_id: str
    worker_id: str
    seen_epoch: int = 0


class RecordReport(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    report: Report


class PauseExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Dispatch nothing new; what runs may end (SRV-07)."""

    at: float
    reason: str | None = None


class ResumeExecution(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    reason: str | None = None


class CancelExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Stop everything and end as cancelled (SRV-11)."""

    at: float
    reason: str = "asked for"


class Proceed(msgspec.Struct, frozen=True, kw_only=True):
    """Do the first thing the state itself asks for."""

    at: float


Command = StartExecution | ClaimOrder | RecordReport | PauseExecution | ResumeExecution | CancelExecution | Proceed
