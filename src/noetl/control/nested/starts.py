"""Starts: what is known of an execution that is to begin."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.commands import StartExecution
from noetl.events.compensation import CompensationRegistered
from noetl.events.outcomes import Error
from noetl.events.rerun_state import RerunState
from noetl.net.net import Net


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """An execution to begin; a nested one says whose child it is. `refused`: it ends where it begins (KEY-02).
    `held`: it begins paused, and this is why.
    One that `compensates` another only undoes what that one had registered. `carried`: it begins at a step, with what
    an earlier run had there."""

    net: Net
    execution_id: str
    trace_id: str
    payload: dict[str, Any]
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0
    paused: bool = False
    held: str | None = None
    refused: Error | None = None
    compensates: str | None = None
    registrations: tuple[CompensationRegistered, ...] = ()
    carried: RerunState | None = None

    def command(self, at: float, net_hash: str, late_after_s: tuple[float, ...] = ()) -> StartExecution:
        return StartExecution(
            at=at,
            net_hash=net_hash,
            payload=self.payload,
            parent_execution_id=self.parent_execution_id,
            parent_step_run_id=self.parent_step_run_id,
            depth=self.depth,
            paused=self.paused,
            held=self.held,
            refused=self.refused,
            compensates=self.compensates,
            registrations=self.registrations,
            carried=self.carried,
            late_after_s=late_after_s,
        )
