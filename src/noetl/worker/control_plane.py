"""All that a worker knows of the server (WRK-01, WRK-06). It claims from it and reports to it, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from noetl.events.orders import PlaybookCall, PlaybookCallResult, Turn, TurnAnswer
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import Net


class ControlPlane(Protocol):
    async def turn(self, turn: Turn) -> TurnAnswer:
        """Record what is reported, durably, and hand out orders, in one call."""

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        """Prolong leases (order id -> epoch), by the server's usual time or by `ttls`; gives the orders that are no
        longer held."""

    async def resumed(self, execution_id: str) -> None:
        """Return once the execution is not paused."""

    async def net(self, net_hash: str) -> Net:
        """The compiled playbook of an order."""

    async def secret(self, ask: Ask) -> Material:
        """One secret, for the holder of an order, in memory only (KEY-07). ToolError `keychain.unresolved`."""

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        """Start a nested playbook, and wait for its end if asked to. ToolError `playbook.failed` says why not."""

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        """Nobody waits for this child any more: cancel it."""

    async def schema(self, named: str) -> Any:
        """The schema of results that is registered under a name (RES-07); None where there is none."""

    def keep(self, value: Any, execution_id: str = "") -> Reference:
        """Store a value of an execution that is too large for an event, and say where."""

    def load(self, reference: Reference) -> Any:
        """A stored value."""

    async def keep_table(self, file: Path, execution_id: str = "") -> Reference:
        """Store a table of an execution, masked by its worker, and say where. The file is streamed."""

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        """Write a stored table to a file. ToolError `result.missing`."""
