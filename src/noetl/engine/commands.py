"""Commands: what somebody asks of the engine. Each carries the time, since the engine reads no clock."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.records.orders import Report


class StartExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Begin: the playbook is already loaded, checked and its keychain resolved (SRV-01)."""

    at: float
    net_hash: str
    payload: dict[str, Any] = {}
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None


class ClaimOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A worker takes an order. `seen_epoch` is the lease the shell found ended, 0 for an order never leased."""

    at: float
    order_id: str
    worker_id: str
    seen_epoch: int = 0


class RecordReport(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    report: Report


class Proceed(msgspec.Struct, frozen=True, kw_only=True):
    """Do the first thing the state itself asks for."""

    at: float


Command = StartExecution | ClaimOrder | RecordReport | Proceed
