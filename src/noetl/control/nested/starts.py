"""Starts: what is known of an execution that is to begin."""

from __future__ import annotations

from noetl.engine.commands import ExecutionStart, StartExecution
from noetl.net.net import Net


class Start(ExecutionStart, frozen=True, kw_only=True):
    """An execution to begin, with its net."""

    net: Net
    execution_id: str
    trace_id: str

    def command(self, at: float, net_hash: str, late_after_s: tuple[float, ...] = ()) -> StartExecution:
        shared = {name: getattr(self, name) for name in ExecutionStart.__struct_fields__}
        return StartExecution(at=at, net_hash=net_hash, late_after_s=late_after_s, **shared)
