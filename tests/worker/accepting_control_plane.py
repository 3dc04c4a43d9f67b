"""A control plane for one worker or one order under test: it accepts every report and has nothing else to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.events.orders import PlaybookCall, PlaybookCallResult, ReportResult, Turn, TurnAnswer
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import Net


class AcceptingControlPlane:
    """A test overrides the calls it expects; any other call fails the test."""

    async def turn(self, turn: Turn) -> TurnAnswer:
        return TurnAnswer(verdicts=(ReportResult.ACCEPTED,) * len(turn.reports))

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        return frozenset()

    async def resumed(self, execution_id: str) -> None:
        raise NotImplementedError

    async def net(self, net_hash: str) -> Net:
        raise NotImplementedError

    async def secret(self, ask: Ask) -> Material:
        raise NotImplementedError

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        raise NotImplementedError

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        raise NotImplementedError

    async def schema(self, named: str) -> Any:
        return None

    def keep(self, value: Any, execution_id: str) -> Reference:
        raise NotImplementedError

    def load(self, reference: Reference) -> Any:
        raise NotImplementedError

    async def keep_table(self, file: Path, execution_id: str) -> Reference:
        raise NotImplementedError

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        raise NotImplementedError
